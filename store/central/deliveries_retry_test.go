package central

import (
	"context"
	"slices"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	engine "partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// recovered queues again all that is dead of a subscription and of a span.
func recovered(t *testing.T, db *DB, subscription string, of store.Span) (queued int) {
	t.Helper()
	queued, last, err := db.RecoverDeliveries(t.Context(), subscription, of, "", time.Hour)
	if noError(t, err); last != "" {
		t.Errorf("some are left after %q", last)
	}
	return queued
}

func TestRecoverDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
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
		if n := recovered(t, q.DB, q.subs[0], store.Span{Since: events[2].CreatedAt}); n != 3 {
			t.Errorf("recovered %d, want 3", n)
		}
		if n := recovered(t, q.DB, q.subs[0], store.Span{Since: events[2].CreatedAt}); n != 0 {
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

// TestRecoverAllDeliveries queues again what is dead of a span, subscription by subscription:
// a call goes on after the last one, and passes over what cannot be delivered.
func TestRecoverAllDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		var events []*store.Event
		for range 4 {
			events = append(events, q.fire(t))
		}
		for _, c := range q.claim(t, 100) {
			q.record(t, store.StateDead, 0, c)
		}
		slices.Sort(q.subs)
		_, err := q.RevokeSubscription(ctx, q.account, q.subs[1])
		noError(t, err)
		span := store.Span{Since: events[1].CreatedAt, Until: events[3].CreatedAt}
		last := ""
		for i, want := range []int{2, 0, 2} {
			queued, at, err := q.RecoverAllDeliveries(ctx, span, last, 0)
			if noError(t, err); queued != want || at != q.subs[i] {
				t.Errorf("after %q: %d queued, last %q; want %d, %q", last, queued, at, want, q.subs[i])
			}
			last = at
		}
		if queued, at, err := q.RecoverAllDeliveries(ctx, span, last, 0); queued != 0 || at != "" || err != nil {
			t.Errorf("after all: %d queued, last %q, %v", queued, at, err)
		}
		for i, want := range []int{4, 0} { // what is left, and again
			queued, at, err := q.RecoverAllDeliveries(ctx, store.Span{}, "", time.Hour)
			if noError(t, err); queued != want || at != "" {
				t.Errorf("all, %d: %d queued, last %q; want %d", i, queued, at, want)
			}
		}
		claims := q.claim(t, 100)
		for _, c := range claims {
			if c.SubscriptionID == q.subs[1] || c.Tries != 0 {
				t.Errorf("claimed %+v", c)
			}
		}
		if len(claims) != 8 {
			t.Errorf("%d claims, want 8", len(claims))
		}
		_, _, err = q.RecoverAllDeliveries(ctx, span, "a\x00", 0)
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestRecoverOneOfMany: a request ends in time however many of one subscription are dead, and the
// next goes on there: it does not take up what has died again meanwhile.
func TestRecoverOneOfMany(t *testing.T) {
	const dead = 2*deliveries.RecoverSlice + 1
	for name, ask := range map[string]func(q *queued, after string) (int, string, error){
		"asked for": func(q *queued, after string) (int, string, error) {
			return q.RecoverDeliveries(t.Context(), q.subs[0], store.Span{}, after, 0)
		},
		"with all": func(q *queued, after string) (int, string, error) {
			return q.RecoverAllDeliveries(t.Context(), store.Span{}, after, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p place) {
				q := newQueued(t, p, 2)
				slices.Sort(q.subs)
				q.fire(t)
				q.manyDead(t, q.subs[0], dead)
				last, total := "", 0
				for i, want := range []int{deliveries.RecoverSlice, deliveries.RecoverSlice, 1} {
					queued, at, err := ask(q, last)
					if noError(t, err); queued != want || at == "" && i < 2 {
						t.Fatalf("after %q: %d queued, last %q; want %d", last, queued, at, want)
					}
					last, total = at, total+queued
					q.execute(t, `UPDATE deliveries SET state = 'dead' WHERE subscription_id = ? AND tries_before > 0`, q.subs[0])
				}
				if last != "" { // of all, others may be left
					if queued, at, err := ask(q, last); queued != 0 || at != "" || err != nil {
						t.Errorf("after all: %d queued, last %q, %v", queued, at, err)
					}
				}
				if total != dead {
					t.Errorf("%d queued of %d", total, dead)
				}
				_, _, err := ask(q, "a\x00")
				wantErr(t, err, store.ErrInvalid)
			})
		})
	}
}

// manyDead gives a subscription dead deliveries of as many events, which there need not be.
func (q *queued) manyDead(t *testing.T, subscription string, dead int) {
	t.Helper()
	q.execute(t, `WITH RECURSIVE series(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < ?)
		INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
		SELECT 'dlv_' || i, 'evt_' || i, ?, 'dead', 4, 0, 1, 1, '', 1, 1 FROM series`, dead, subscription)
}

// execute runs a statement in a transaction of its own.
func (q *queued) execute(t *testing.T, statement string, args ...any) {
	t.Helper()
	noError(t, q.db.WriteAlone(t.Context(), func(ctx context.Context, tx *engine.Tx) error {
		_, err := tx.Exec(ctx, statement, args...)
		return err
	}))
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
