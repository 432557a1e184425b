package central

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"partneredge/store"
)

// impatient is the context of a caller who gives up while the database is busy.
type impatient struct {
	context.Context
	once  sync.Once
	asked chan struct{} // closed once the caller has come
	ended atomic.Bool
}

func (c *impatient) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	c.once.Do(func() { close(c.asked) })
	return nil
}

// TestNobodyWaitsForTheSubscription: once the caller has given up, a subscription is
// not made, although the write was queued before.
func TestNobodyWaitsForTheSubscription(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		ctx := &impatient{Context: context.WithoutCancel(t.Context()), asked: make(chan struct{})}
		var busy sync.WaitGroup
		begun := make(chan struct{})
		busy.Go(func() {
			if err := db.change(t.Context(), a.ID, func(context.Context, *tx) error {
				close(begun)
				<-ctx.asked
				ctx.ended.Store(true)
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		<-begun
		wantErr(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired)), store.ErrUnavailable)
		busy.Wait()
		kept, _, err := db.Subscriptions(t.Context(), a.ID, store.Page{})
		if noError(t, err); len(kept) != 0 {
			t.Errorf("kept %+v", kept)
		}
	})
}
