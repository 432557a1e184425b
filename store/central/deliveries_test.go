package central

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"partneredge/store"
)

// fake is a clock that only tests move.
type fake struct{ at time.Time }

func (c *fake) now() time.Time { return c.at }

// queued is an account with a number of subscriptions, and a clock.
type queued struct {
	*DB
	clock   *fake
	account string
	subs    []string
}

func newQueued(t *testing.T, p place, subscriptions int) *queued {
	clock := &fake{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	q := &queued{DB: openWith(t, p, Config{Now: clock.now}), clock: clock}
	q.account = newAccount(t, q.DB, store.ModeLive).ID
	for range subscriptions {
		s := subscriptionFor(q.account, store.EventSentinelFired)
		noError(t, q.AddSubscription(context.Background(), s))
		q.subs = append(q.subs, s.ID)
	}
	return q
}

// fire makes an event, which goes to every subscription, a second after the last.
func (q *queued) fire(t *testing.T) *store.Event {
	t.Helper()
	q.clock.at = q.clock.at.Add(time.Second)
	_, e, err := q.AddFiring(context.Background(), store.Firing{AccountID: q.account, Name: "n"})
	noError(t, err)
	return e
}

func (q *queued) claim(t *testing.T, limit int) []Claim {
	t.Helper()
	return must(q.ClaimDeliveries(context.Background(), "w", limit, time.Minute))(t)
}

// outcome of the next attempt of a claim.
func (q *queued) outcome(c Claim, state store.State, next time.Duration) Outcome {
	o := Outcome{
		State: state, SubscriptionID: c.SubscriptionID,
		Attempt: store.Attempt{
			ID: store.NewID("dlv", q.clock.at), DeliveryID: c.ID, Number: c.Attempts + 1, StartedAt: q.clock.at,
			Latency: 1500 * time.Microsecond, Status: 503, Headers: map[string]string{"x-svc-event": c.EventType},
			Excerpt: "später", Error: "status 503",
		},
	}
	if state == store.StatePending {
		o.NextAt = q.clock.at.Add(next)
	}
	return o
}

func (q *queued) finish(t *testing.T, state store.State, next time.Duration, claims ...Claim) []Outcome {
	t.Helper()
	var outcomes []Outcome
	for _, c := range claims {
		outcomes = append(outcomes, q.outcome(c, state, next))
	}
	noError(t, q.FinishDeliveries(context.Background(), outcomes))
	return outcomes
}

func TestDeliveryLife(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		if next := must(q.NextDelivery(ctx))(t); !next.IsZero() {
			t.Errorf("nothing waits, but is due at %v", next)
		}
		e := q.fire(t)
		began := q.clock.at
		claims := q.claim(t, 10)
		if len(claims) != 1 {
			t.Fatalf("claims %+v", claims)
		}
		c := claims[0]
		if c.EventID != e.ID || c.EventType != e.Type || c.AccountID != q.account || c.SubscriptionID != q.subs[0] ||
			string(c.Body) != string(e.Body) || c.TargetURL != "https://hooks.example.com/in" || !slices.Equal(c.Secrets, []string{"5ec7e7"}) ||
			c.Revoked || !c.Live || c.Attempts != 0 || c.Tries != 0 || !c.NextAt.Equal(began) {
			t.Errorf("claim %+v", c)
		}
		if again := q.claim(t, 10); len(again) != 0 {
			t.Errorf("claimed twice: %+v", again)
		}
		if next := must(q.NextDelivery(ctx))(t); !next.Equal(began.Add(time.Minute)) {
			t.Errorf("due at %v, want the end of the lease", next)
		}
		q.clock.at = began.Add(time.Minute) // nobody finished
		c = q.claim(t, 10)[0]
		first := q.finish(t, store.StatePending, 5*time.Second, c)
		noError(t, q.FinishDeliveries(ctx, first)) // told twice
		if claims := q.claim(t, 10); len(claims) != 0 {
			t.Errorf("claimed before its time: %+v", claims)
		}
		failing := must(q.Subscription(ctx, q.subs[0]))(t).FailingFrom
		if !failing.Equal(q.clock.at) {
			t.Errorf("failing from %v", failing)
		}
		q.clock.at = q.clock.at.Add(5 * time.Second)
		c = q.claim(t, 10)[0]
		if c.Attempts != 1 || c.Tries != 1 || !c.FailingFrom.Equal(failing) {
			t.Errorf("second claim %+v", c)
		}
		late := first[0]
		late.State, late.NextAt, late.SubscriptionID = store.StateDead, time.Time{}, ""
		second := q.finish(t, store.StateDelivered, 0, c)
		noError(t, q.FinishDeliveries(ctx, []Outcome{late})) // of the first try, too late
		d := must(q.Delivery(ctx, c.ID))(t)
		if d.State != store.StateDelivered || d.Attempts != 2 || !d.NextAt.IsZero() || !d.UpdatedAt.Equal(q.clock.at) {
			t.Errorf("delivered: %+v", d)
		}
		if f := must(q.Subscription(ctx, q.subs[0]))(t).FailingFrom; !f.IsZero() {
			t.Errorf("failing from %v after a success", f)
		}
		attempts := must(q.Attempts(ctx, c.ID))(t)
		if want := []store.Attempt{first[0].Attempt, second[0].Attempt}; !reflect.DeepEqual(attempts, want) {
			t.Errorf("attempts %+v\nwant %+v", attempts, want)
		}

		// An operator has it sent again, and asks twice.
		for range 2 {
			if d := must(q.RetryDelivery(ctx, c.ID))(t); d.State != store.StatePending || d.Attempts != 2 {
				t.Errorf("retried: %+v", d)
			}
		}
		c = q.claim(t, 10)[0]
		if c.Attempts != 2 || c.Tries != 0 {
			t.Errorf("claim after a retry: %+v", c)
		}
		noError(t, q.FinishDeliveries(ctx, []Outcome{{State: store.StateCancelled, Attempt: store.Attempt{DeliveryID: c.ID}}}))
		_, err := q.RetryDelivery(ctx, c.ID)
		wantErr(t, err, store.ErrConflict)
		if n := len(must(q.Attempts(ctx, c.ID))(t)); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}

// TestClaimIsFair has one subscription with a long queue beside two short ones.
func TestClaimIsFair(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := newQueued(t, p, 1)
		for range 50 {
			q.fire(t)
		}
		for range 2 {
			s := subscriptionFor(q.account, store.EventSentinelFired)
			noError(t, q.AddSubscription(context.Background(), s))
			q.subs = append(q.subs, s.ID)
		}
		for range 5 {
			q.fire(t)
		}
		count := map[string]int{}
		last := map[string]time.Time{}
		for _, c := range q.claim(t, 12) {
			count[c.SubscriptionID]++
			if c.NextAt.Before(last[c.SubscriptionID]) {
				t.Errorf("out of order: %v after %v", c.NextAt, last[c.SubscriptionID])
			}
			last[c.SubscriptionID] = c.NextAt
		}
		for _, s := range q.subs {
			if count[s] != 4 {
				t.Errorf("shares %v, want 4 each", count)
			}
		}
		total := 12
		for {
			n := len(q.claim(t, 20))
			if total += n; n == 0 {
				break
			}
		}
		if total != 55+5+5 {
			t.Errorf("claimed %d of %d", total, 65)
		}
		released := must(q.ReleaseDeliveries(context.Background(), "w"))(t)
		if released != 65 || len(q.claim(t, 100)) == 0 {
			t.Errorf("released %d of 65", released)
		}
	})
}

func TestRevocationStopsTheQueue(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		for range 3 {
			q.fire(t)
		}
		held := q.claim(t, 2) // one of each
		_, err := q.RevokeSubscription(ctx, q.account, q.subs[0])
		noError(t, err)
		cancelled, _, err := q.Deliveries(ctx, DeliveryFilter{SubscriptionID: q.subs[0], State: store.StateCancelled}, store.Page{})
		if noError(t, err); len(cancelled) != 3 {
			t.Errorf("cancelled %+v", cancelled)
		}
		q.finish(t, store.StateDelivered, 0, held...) // the try was under way
		for _, c := range held {
			want := store.StateDelivered
			if c.SubscriptionID == q.subs[0] {
				want = store.StateCancelled
			}
			if d := must(q.Delivery(ctx, c.ID))(t); d.State != want {
				t.Errorf("state %s, want %s", d.State, want)
			}
		}
		q.fire(t)
		for _, c := range q.claim(t, 10) {
			if c.SubscriptionID != q.subs[1] {
				t.Errorf("claimed for a revoked subscription: %+v", c)
			}
		}
		setup := store.ModeSetup
		_, _, err = q.UpdateAccount(ctx, q.account, AccountPatch{Mode: &setup})
		noError(t, err)
		q.clock.at = q.clock.at.Add(time.Hour)
		for _, c := range q.claim(t, 10) {
			if c.Live {
				t.Errorf("claim of an account in setup: %+v", c)
			}
		}
		_, err = q.RetryDelivery(ctx, held[0].ID)
		wantErr(t, err, store.ErrConflict)
		_, err = q.RecoverDeliveries(ctx, q.subs[1], time.Time{})
		wantErr(t, err, store.ErrConflict)
	})
}

// TestTaker gets new deliveries with a lease on them, but for what it refuses.
func TestTaker(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		var taken []Claim
		noError(t, q.SetTaker(&Taker{
			Owner: "t", Lease: time.Minute,
			Accept: func(s string) bool { return s != q.subs[1] },
			Take:   func(c []Claim) { taken = append(taken, c...) },
		}))
		e := q.fire(t)
		left := q.claim(t, 10)
		if len(taken) != 2 || len(left) != 1 || left[0].SubscriptionID != q.subs[1] {
			t.Fatalf("taken %+v, left %+v", taken, left)
		}
		for _, c := range taken {
			d := must(q.Delivery(ctx, c.ID))(t)
			if d != c.Delivery || string(c.Body) != string(e.Body) || !c.Live || len(c.Secrets) != 1 || c.TargetURL == "" {
				t.Errorf("taken %+v of %+v", c, d)
			}
		}
		q.clock.at = q.clock.at.Add(time.Minute)
		if again := q.claim(t, 10); len(again) != 3 {
			t.Errorf("after the lease %d can be claimed, want 3", len(again))
		}
		_, _, err := q.AddFiring(ctx, store.Firing{AccountID: q.account, ID: must(q.first(ctx))(t)})
		if wantErr(t, err, store.ErrConflict); len(taken) != 2 {
			t.Errorf("a write that failed was taken: %+v", taken[2:])
		}
		noError(t, q.SetTaker(nil))
		q.fire(t)
		if len(taken) != 2 {
			t.Error("taken after its end")
		}
		wantErr(t, q.SetTaker(&Taker{Owner: "t"}), store.ErrInvalid)
	})
}

// first is the id of a firing that is there.
func (q *queued) first(ctx context.Context) (string, error) {
	items, _, _, err := q.Firings(ctx, q.account, time.Time{}, 1)
	if err != nil || len(items) == 0 {
		return "", fmt.Errorf("no firing: %w", err)
	}
	return items[0].ID, nil
}
