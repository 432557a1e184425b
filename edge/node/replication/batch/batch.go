// Package batch joins lookups that come close together into one question, as
// golang.org/x/sync/singleflight joins those of one name.
package batch

import (
	"context"
	"sync"
	"time"
)

// Result of the lookup of one name.
type Result[V any] struct {
	Value V
	Err   error
}

// Group asks for names. While few questions are under way each name is asked for at
// once; then names wait for each other, for Every at most. A name that is being asked for
// is not asked for a second time. The fields are set before the first call of Do.
type Group[V any] struct {
	// Ask looks up names, no two of which are equal, and returns their results in the
	// same order. Required.
	Ask func(ctx context.Context, names []string) []Result[V]
	// Alone bounds the questions under way beside which a name is asked for at once.
	Alone int
	// Every bounds the time for which a name waits for others.
	Every time.Duration
	// Most bounds the names of a question. 0: one.
	Most int

	mu       sync.Mutex
	calls    map[string]*call[V] // without a result
	waiting  []*call[V]          // those that have not been asked for
	underWay int                 // questions
	due      *time.Timer         // nil before anything waited
}

// call is the lookup of one name.
type call[V any] struct {
	name   string
	ctx    context.Context // of the question, if this is its first name
	leave  func(Result[V])
	result Result[V]
	done   chan struct{} // closed when there is a result
}

// Request is a call of Do.
type Request[V any] struct {
	Name string
	// Life is the context of the question if this request begins one: others may wait
	// for the answer, so it does not end with the request.
	Life context.Context
	// Enter is called when the name is not being asked for. It returns a result if there
	// is one already, and else leave, which is called with the name's result before those
	// who wait know it.
	Enter func() (leave func(Result[V]), at *Result[V])
}

// Do returns the result for a name, or the error of ctx if that ends before.
func (g *Group[V]) Do(ctx context.Context, r Request[V]) (V, error) {
	c, at := g.join(r)
	if at != nil {
		return at.Value, at.Err
	}
	select {
	case <-c.done:
		return c.result.Value, c.result.Err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (g *Group[V]) join(r Request[V]) (*call[V], *Result[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, asked := g.calls[r.Name]; asked {
		return c, nil
	}
	leave, at := r.Enter()
	if at != nil {
		return nil, at
	}
	c := &call[V]{name: r.Name, ctx: r.Life, leave: leave, done: make(chan struct{})}
	if g.calls == nil {
		g.calls = make(map[string]*call[V])
	}
	g.calls[r.Name] = c
	g.waiting = append(g.waiting, c)
	switch {
	case g.underWay < g.Alone, len(g.waiting) >= g.Most:
		g.send()
	case len(g.waiting) > 1: // and the time runs
	case g.due == nil:
		g.due = time.AfterFunc(g.Every, g.sendWaiting)
	default:
		g.due.Reset(g.Every)
	}
	return c, nil
}

func (g *Group[V]) sendWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.send()
}

// send asks for the names that wait. mu is held.
func (g *Group[V]) send() {
	if g.due != nil {
		g.due.Stop()
	}
	if len(g.waiting) == 0 {
		return
	}
	calls := g.waiting
	g.waiting = nil
	g.underWay++
	go g.ask(calls)
}

func (g *Group[V]) ask(calls []*call[V]) {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.name
	}
	results := g.Ask(calls[0].ctx, names)
	answered := time.Now()
	g.mu.Lock()
	for i, c := range calls {
		c.result = results[i]
		delete(g.calls, c.name) // who asks from now on gets no earlier result
	}
	g.underWay--
	if g.underWay < g.Alone {
		g.send()
	}
	g.mu.Unlock()
	var failed []*call[V]
	for _, c := range calls {
		if c.result.Err != nil {
			failed = append(failed, c)
			continue
		}
		c.end()
	}
	// What follows of a failure costs processors' time. All at once would hold up whatever
	// else this process does, so they end one by one, as they came. Each has its moment:
	// a sleep ends late, on a busy machine by milliseconds.
	for i, c := range failed {
		time.Sleep(time.Until(answered.Add(g.Every * time.Duration(i) / time.Duration(len(failed)))))
		c.end()
	}
}

// end hands the result of a call to those who wait for it.
func (c *call[V]) end() {
	c.leave(c.result)
	close(c.done)
}
