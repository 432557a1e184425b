package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"partneredge/edge/origin/admin/input"
	"partneredge/store/central/audit"
)

// Bounds of lists. A list holds a connection to the database for as long as it reads, and
// what partners and nodes ask for needs those as well: with SQLite there are eight.
const (
	listsMost  = 3
	listsOfOne = 2                // of them, the most of one actor
	listTime   = 25 * time.Second // with the wait; clients wait for 30 s
	retryLists = 5 * time.Second
)

// bounded serves a list once fewer than listsMost are being read, and fewer than listsOfOne of
// the same actor. The context of its request ends after listTime.
func (a *api) bounded(serve handler) handler {
	return func(r *http.Request) (answer, error) {
		ctx, cancel := context.WithTimeout(r.Context(), listTime)
		defer cancel()
		leave, ok := a.lists.take(ctx)
		if !ok {
			return answer{}, &input.Problem{Kind: input.KindLimited, Detail: "too many lists are being read; try again later", RetryAfter: retryLists}
		}
		defer leave()
		list, err := serve(r.WithContext(ctx))
		if err != nil && ctx.Err() != nil {
			return answer{}, &input.Problem{Kind: input.KindLimited, Detail: "the list takes too long to read; select less of it", RetryAfter: retryLists}
		}
		return list, err
	}
}

// lists counts the lists that are being read.
type lists struct {
	all chan struct{} // holds one for each

	mu sync.Mutex
	of map[string]*listsOf // by actor, of those who read or wait
}

// listsOf counts those of an actor.
type listsOf struct {
	reading chan struct{} // holds one for each
	calls   int           // of take that have not ended with leave
}

func newLists() *lists {
	return &lists{all: make(chan struct{}, listsMost), of: map[string]*listsOf{}}
}

// take waits until a list of the actor of ctx may be read; leave is called after that. It
// returns false if ctx ends before.
func (l *lists) take(ctx context.Context) (leave func(), ok bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	actor, _ := audit.ActorOf(ctx)
	l.mu.Lock()
	one := l.of[actor.ID]
	if one == nil {
		one = &listsOf{reading: make(chan struct{}, listsOfOne)}
		l.of[actor.ID] = one
	}
	one.calls++
	l.mu.Unlock()
	end := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.calls--; one.calls == 0 {
			delete(l.of, actor.ID)
		}
	}
	select {
	case one.reading <- struct{}{}:
	case <-ctx.Done():
		end()
		return nil, false
	}
	select {
	case l.all <- struct{}{}:
	case <-ctx.Done():
		<-one.reading
		end()
		return nil, false
	}
	return func() {
		<-l.all
		<-one.reading
		end()
	}, true
}
