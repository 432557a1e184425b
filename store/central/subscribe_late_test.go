package central

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"partneredge/store"
	"partneredge/store/central/idempotency"
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

// late calls write, whose caller gives up while another write keeps the database busy.
func late(t *testing.T, db *DB, account string, write func(context.Context) error) {
	t.Helper()
	ctx := &impatient{Context: context.WithoutCancel(t.Context()), asked: make(chan struct{})}
	var busy sync.WaitGroup
	begun := make(chan struct{})
	busy.Go(func() {
		if err := db.change(t.Context(), account, func(context.Context, *tx) error {
			close(begun)
			<-ctx.asked
			ctx.ended.Store(true)
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	wantErr(t, write(ctx), store.ErrUnavailable)
	busy.Wait()
}

// TestNobodyWaitsForTheSubscription: once the caller has given up, a subscription is
// not made, although the write was queued before.
func TestNobodyWaitsForTheSubscription(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		late(t, db, a.ID, func(ctx context.Context) error {
			return db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired))
		})
		kept, _, err := db.Subscriptions(t.Context(), a.ID, store.Page{})
		if noError(t, err); len(kept) != 0 {
			t.Errorf("kept %+v", kept)
		}
	})
}

// TestNobodyWaitsForTheRepetition: once the caller has given up, a repetition is not
// taken for answered, so the subscription is revoked with the first request.
func TestNobodyWaitsForTheRepetition(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		once := idempotency.Request{Key: "k", Digest: "d"}
		first := must(db.Subscribe(t.Context(), subscriptionFor(a.ID, store.EventSentinelFired), &once))(t)
		late(t, db, a.ID, func(ctx context.Context) error {
			_, err := db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &once)
			return err
		})
		must(db.AbandonSubscription(t.Context(), a.ID, first.ID, "k"))(t)
		if s := must(db.Subscription(t.Context(), first.ID))(t); s.RevokedAt.IsZero() {
			t.Error("it is active, and nobody has its secret")
		}
	})
}
