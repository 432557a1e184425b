package registry

import (
	"context"
	"net/http"
	"time"

	"partneredge/edge/places"
	"partneredge/store/central/audit"
)

// bound limits the requests of one kind, by actor, so that whoever may only read leaves the
// database and the memory to others.
type bound struct {
	asked   places.Places[string] // those that wait as well; further ones are refused
	serving places.Places[string]
}

// maxWait is the time for which a request waits. Clients that push ask for many blobs at a
// time, and most of them give up at a refusal.
const maxWait = 30 * time.Second

var errBusy = &problem{http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many blobs are being read for this token; try again later"}

// enter begins a request of the context's actor as soon as there is a place for it; leave must
// be called at its end.
func (b *bound) enter(ctx context.Context) (leave func(), err error) {
	actor, _ := audit.ActorOf(ctx)
	forget, ok := b.asked.Take(actor.ID)
	if !ok {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	end, ok := b.serving.Await(ctx, actor.ID)
	if !ok {
		forget()
		return nil, errBusy
	}
	return func() { end(); forget() }, nil
}
