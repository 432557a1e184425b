package admin

import (
	"context"
	"net/http"
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
		actor, _ := audit.ActorOf(ctx)
		leave, ok := a.lists.Await(ctx, actor.ID)
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
