package central

import (
	"context"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
)

func TestRecoverDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		var events []*store.Event
		for range 6 {
			events = append(events, q.fire(t))
		}
		for _, c := range q.claim(t, 100) {
			if c.EventID != events[5].ID { // of each queue, the last is delivered
				q.record(t, store.StateDead, 0, c)
			} else {
				q.record(t, store.StateDelivered, 0, c)
			}
		}
		if n := must(q.RecoverDeliveries(ctx, q.subs[0], events[2].CreatedAt))(t); n != 3 {
			t.Errorf("recovered %d, want 3", n)
		}
		if n := must(q.RecoverDeliveries(ctx, q.subs[0], events[2].CreatedAt))(t); n != 0 {
			t.Errorf("recovered %d again", n)
		}
		claims := q.claim(t, 100)
		for i, c := range claims {
			if c.SubscriptionID != q.subs[0] || c.Attempts != 1 || c.Tries != 0 {
				t.Errorf("claim %d: %+v", i, c)
			}
		}
		if len(claims) != 3 {
			t.Errorf("%d claims", len(claims))
		}
	})
}

// TestRetryWaiting brings a delivery forward that waits for its next try, and
// leaves alone one that a sender holds.
func TestRetryWaiting(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := audit.WithActor(context.Background(), ana)
		q := newQueued(t, p, 1)
		q.fire(t)
		c := q.claim(t, 1)[0]
		if d := must(q.RetryDelivery(ctx, c.ID))(t); !d.NextAt.Equal(c.NextAt) {
			t.Errorf("held: %+v", d)
		}
		if again := q.claim(t, 1); len(again) != 0 {
			t.Errorf("claimed twice: %+v", again)
		}
		q.record(t, store.StatePending, time.Hour, c)
		for range 2 { // the second changes nothing
			if d := must(q.RetryDelivery(ctx, c.ID))(t); d.State != store.StatePending || !d.NextAt.Equal(q.clock.at) || d.Attempts != 1 {
				t.Errorf("brought forward: %+v", d)
			}
		}
		claims := q.claim(t, 10)
		if len(claims) != 1 || claims[0].Tries != 1 {
			t.Errorf("the schedule goes on: %+v", claims)
		}
		if log, _, err := q.Audits(ctx, AuditFilter{Target: c.ID}, store.Page{}); err != nil || len(log) != 1 || log[0].Action != "delivery.retry" {
			t.Errorf("the audit log has %+v, %v", log, err)
		}
	})
}
