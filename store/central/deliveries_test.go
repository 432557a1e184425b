package central

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
)

// fakeClock is a clock that only tests move.
type fakeClock struct{ at time.Time }

func (c *fakeClock) now() time.Time { return c.at }

// queued is an account with a number of subscriptions, a clock, and a sender that
// claims.
type queued struct {
	*DB
	clock   *fakeClock
	account string
	subs    []string
	held    map[string]time.Time // by delivery, when the lease ends
	told    dueSet
}

func newQueued(t *testing.T, p place, subscriptions int) *queued {
	clock := &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	q := &queued{DB: openWith(t, p, Config{Now: clock.now}), clock: clock, held: make(map[string]time.Time)}
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

// claim claims what is due for a minute, as a sender does: up to each deliveries
// from every queue. It passes over what it holds already.
func (q *queued) claim(t *testing.T, each int) []deliveries.Claim {
	t.Helper()
	claims, _ := q.claimRest(t, each)
	return claims
}

// claimRest is claim, with the subscriptions that have more due.
func (q *queued) claimRest(t *testing.T, each int) ([]deliveries.Claim, []string) {
	t.Helper()
	due := q.due(t)
	claims, more, err := q.ClaimDeliveries(context.Background(), deliveries.ClaimRequest{
		Owner: "w", Lease: time.Minute, Subscriptions: due, Each: each,
		Holds: func(id string) bool { return q.held[id].After(q.clock.at) }, Held: heldOf(due, len(q.held)),
	})
	noError(t, err)
	for _, c := range claims {
		q.held[c.ID] = q.clock.at.Add(time.Minute)
	}
	q.told.put(more)
	return claims, more
}

// heldOf is a ClaimRequest's Held: as many of each subscription.
func heldOf(subscriptions []string, n int) map[string]int {
	held := make(map[string]int)
	for _, id := range subscriptions {
		held[id] = n
	}
	return held
}

// due lists the subscriptions that have something due and were not claimed from.
func (q *queued) due(t *testing.T) []string {
	t.Helper()
	return must(q.told.take(context.Background(), q.DB))(t)
}

// outcome of the next attempt of a claim.
func (q *queued) outcome(c deliveries.Claim, state store.State, next time.Duration) deliveries.Outcome {
	o := deliveries.Outcome{
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

func (q *queued) record(t *testing.T, state store.State, next time.Duration, claims ...deliveries.Claim) []deliveries.Outcome {
	t.Helper()
	var outcomes []deliveries.Outcome
	for _, c := range claims {
		outcomes = append(outcomes, q.outcome(c, state, next))
	}
	noError(t, q.RecordOutcomes(context.Background(), outcomes))
	for _, c := range claims {
		delete(q.held, c.ID)
	}
	return outcomes
}

func TestDeliveryLife(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		if due := q.due(t); len(due) != 0 {
			t.Errorf("nothing waits, but %v are due", due)
		}
		e := q.fire(t)
		began := q.clock.at
		claims := q.claim(t, 10)
		if len(claims) != 1 {
			t.Fatalf("claims %+v", claims)
		}
		c := claims[0]
		if c.EventID != e.ID || c.EventType != e.Type || c.AccountID != q.account || c.SubscriptionID != q.subs[0] ||
			string(c.Body) != string(e.Body) || c.Endpoint.TargetURL != "https://hooks.example.com/in" ||
			!slices.Equal(c.Endpoint.Secrets, []string{"5ec7e7"}) || !c.Endpoint.Deliverable || c.Attempts != 0 || c.Tries != 0 || !c.NextAt.Equal(began) {
			t.Errorf("claim %+v", c)
		}
		if again := q.claim(t, 10); len(again) != 0 {
			t.Errorf("claimed twice: %+v", again)
		}
		if _, next, err := q.Due(ctx, 1, 0); err != nil || !next.Equal(began.Add(time.Minute)) {
			t.Errorf("due next at %v, %v, want %v", next, err, began.Add(time.Minute))
		}
		q.clock.at = began.Add(time.Minute) // no outcome was recorded
		c = q.claim(t, 10)[0]
		first := q.record(t, store.StatePending, 5*time.Second, c)
		noError(t, q.RecordOutcomes(ctx, first)) // recorded twice
		if claims := q.claim(t, 10); len(claims) != 0 {
			t.Errorf("claimed before its time: %+v", claims)
		}
		failing := must(q.Subscription(ctx, q.subs[0]))(t).FailingFrom
		if !failing.Equal(q.clock.at) {
			t.Errorf("failing from %v", failing)
		}
		q.clock.at = q.clock.at.Add(5 * time.Second)
		c = q.claim(t, 10)[0]
		if c.Attempts != 1 || c.Tries != 1 || !c.Endpoint.FailingFrom.Equal(failing) {
			t.Errorf("second claim %+v", c)
		}
		late := first[0]
		late.State, late.NextAt, late.SubscriptionID = store.StateDead, time.Time{}, ""
		second := q.record(t, store.StateDelivered, 0, c)
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{late})) // of the first try, too late
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
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{{State: store.StateCancelled, Attempt: store.Attempt{DeliveryID: c.ID}}}))
		delete(q.held, c.ID)
		if d := must(q.RetryDelivery(ctx, c.ID))(t); d.State != store.StatePending || d.Attempts != 2 {
			t.Errorf("retried once it was cancelled: %+v", d)
		}
		if claims := q.claim(t, 10); len(claims) != 1 || claims[0].ID != c.ID || claims[0].Tries != 0 {
			t.Errorf("claimed once it was cancelled: %+v", claims)
		}
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
		claims, rest := q.claimRest(t, 4)
		for _, c := range claims {
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
			if !slices.Contains(rest, s) {
				t.Errorf("the rest of %s is not due: %v", s, rest)
			}
		}
		total := 12
		for {
			n := len(q.claim(t, 7))
			if total += n; n == 0 {
				break
			}
		}
		if total != 55+5+5 {
			t.Errorf("claimed %d of %d", total, 65)
		}
	})
}

// TestEndLeases has a sender stop: what it held can be claimed at once.
func TestEndLeases(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		for range 20 {
			q.fire(t)
		}
		leased := len(q.claim(t, 100)) // which SQLite keeps no lease of
		if leased != 60 {
			t.Fatalf("claimed %d of 60", leased)
		}
		if p.kind == "sqlite" {
			leased = 0
		}
		noError(t, q.SetClaimer(&deliveries.Claimer{
			Owner: "w", Lease: time.Minute, Accept: func(string) bool { return true }, Claimed: func([]deliveries.Claim) {},
		}))
		q.fire(t)
		clear(q.held)
		if p.kind == "postgres" && len(q.claim(t, 100)) != 0 {
			t.Error("claimed what is leased")
		}
		if ended := must(q.EndLeases(ctx, "w"))(t); ended != leased+3 {
			t.Errorf("%d leases ended, want %d", ended, leased+3)
		}
		clear(q.held)
		if n := len(q.claim(t, 100)); n != 63 {
			t.Errorf("claimed %d of 63", n)
		}
		_, err := q.EndLeases(ctx, "")
		wantErr(t, err, store.ErrInvalid)
	})
}

func TestRevocationStopsTheQueue(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		for range 3 {
			q.fire(t)
		}
		held := q.claim(t, 1) // of each
		_, err := q.RevokeSubscription(ctx, q.account, q.subs[0])
		noError(t, err)
		cancelled, _, err := q.Deliveries(ctx, deliveries.Filter{SubscriptionID: q.subs[0], State: store.StateCancelled}, store.Page{})
		if noError(t, err); len(cancelled) != 3 {
			t.Errorf("cancelled %+v", cancelled)
		}
		_, err = q.RetryDelivery(ctx, cancelled[0].ID)
		wantErr(t, err, store.ErrConflict)
		q.record(t, store.StateDelivered, 0, held...) // the try was under way
		for _, c := range held {
			want := store.StateDelivered
			if c.SubscriptionID == q.subs[0] {
				want = store.StateCancelled
			}
			d := must(q.Delivery(ctx, c.ID))(t)
			if d.State != want || d.Attempts != 1 {
				t.Errorf("%s after %d attempts, want %s after 1", d.State, d.Attempts, want)
			}
			if tries := must(q.AttemptsOf(ctx, []store.Delivery{d}))(t)[d.ID]; len(tries) != 1 {
				t.Errorf("the log has the attempts %+v, want one", tries)
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
			if c.Endpoint.Deliverable {
				t.Errorf("claim of an account in setup: %+v", c)
			}
		}
		_, err = q.RetryDelivery(ctx, held[0].ID)
		wantErr(t, err, store.ErrConflict)
		_, _, err = q.RecoverDeliveries(ctx, q.subs[1], store.Span{}, "", time.Hour)
		wantErr(t, err, store.ErrConflict)
	})
}

// TestRevocationThatWasCutShort revokes a subscription for which more waits than one
// transaction cancels, and goes no further than that transaction. Revoked again, nothing waits.
func TestRevocationThatWasCutShort(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const several = 5000 + 1 // than one transaction cancels
		ctx, q := context.Background(), newQueued(t, p, 1)
		id := q.subs[0]
		noError(t, q.db.WriteAlone(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
				WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
				SELECT 'dlv_' || n, 'evt_' || n, CAST(? AS TEXT), 'pending', 0, 0, n, n, '', n, n FROM i`, several, id)
			return err
		}))
		pending := func() (n int) {
			t.Helper()
			noError(t, q.db.QueryRow(ctx, `SELECT count(*) FROM deliveries WHERE state = 'pending'`).Scan(&n))
			return n
		}
		r := revocation{id: id}
		noError(t, q.writeTo(ctx, "revoke", q.account, nil, func(ctx context.Context, t *tx) error { return r.run(ctx, t, q.account) }))
		if n := pending(); n != 1 || !r.more {
			t.Fatalf("the first transaction leaves %d waiting, more %t, want 1", n, r.more)
		}
		already, err := q.RevokeSubscription(ctx, q.account, id)
		if noError(t, err); !already || pending() != 0 {
			t.Errorf("revoked again, already %t, %d wait", already, pending())
		}
	})
}

// TestClaimer gets new deliveries with a lease on them, but for what it does not
// accept.
func TestClaimer(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		var claimed []deliveries.Claim
		noError(t, q.SetClaimer(&deliveries.Claimer{
			Owner: "t", Lease: time.Minute,
			Accept:  func(s string) bool { return s != q.subs[1] },
			Claimed: func(c []deliveries.Claim) { claimed = append(claimed, c...) },
		}))
		e := q.fire(t)
		left := q.claim(t, 10)
		if len(claimed) != 2 || len(left) != 1 || left[0].SubscriptionID != q.subs[1] {
			t.Fatalf("claimed %+v, left %+v", claimed, left)
		}
		for _, c := range claimed {
			d := must(q.Delivery(ctx, c.ID))(t)
			if d != c.Delivery || string(c.Body) != string(e.Body) || !c.Endpoint.Deliverable || len(c.Endpoint.Secrets) != 1 || c.Endpoint.TargetURL == "" {
				t.Errorf("claimed %+v of %+v", c, d)
			}
		}
		q.clock.at = q.clock.at.Add(time.Minute)
		if again := q.claim(t, 10); len(again) != 3 {
			t.Errorf("after the lease %d can be claimed, want 3", len(again))
		}
		_, _, err := q.AddFiring(ctx, store.Firing{AccountID: q.account, ID: must(q.first(ctx))(t)})
		if wantErr(t, err, store.ErrConflict); len(claimed) != 2 {
			t.Errorf("deliveries of a write that failed were claimed: %+v", claimed[2:])
		}
		noError(t, q.SetClaimer(nil))
		q.fire(t)
		if len(claimed) != 2 {
			t.Error("claimed after its end")
		}
		wantErr(t, q.SetClaimer(&deliveries.Claimer{Owner: "t"}), store.ErrInvalid)
	})
}

// first is the id of a firing that is there.
func (q *queued) first(ctx context.Context) (string, error) {
	view, err := q.Firings(ctx, q.account, time.Time{}, 1)
	if err != nil || len(view.Items) == 0 {
		return "", fmt.Errorf("no firing: %w", err)
	}
	return view.Items[0].ID, nil
}

// TestEndpointsVersion: what ends an endpoint has all be read again, and a request that
// changes none does not, since any partner could send those without end.
func TestEndpointsVersion(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		other := newAccount(t, q.DB, store.ModeLive).ID
		kept := must(q.Subscribe(ctx, subscriptionFor(q.account, store.EventSentinelFired), &idempotency.Request{Key: "k", Digest: "d"}))(t)
		revoke := func(account, id string) error {
			_, err := q.RevokeSubscription(ctx, account, id)
			return err
		}
		abandon := func(id string) error {
			_, err := q.AbandonSubscription(ctx, q.account, id, "k")
			return err
		}
		patch := func(p AccountPatch) error {
			_, _, err := q.UpdateAccount(ctx, q.account, p)
			return err
		}
		name, setup := "B", store.ModeSetup
		for _, test := range []struct {
			what   string
			call   func() error
			err    error
			raises bool
		}{
			{"an unknown id", func() error { return revoke(q.account, "whs_none") }, store.ErrNotFound, false},
			{"another account's", func() error { return revoke(other, q.subs[0]) }, store.ErrNotFound, false},
			{"revoked", func() error { return revoke(q.account, q.subs[0]) }, nil, true},
			{"revoked again", func() error { return revoke(q.account, q.subs[0]) }, nil, false},
			{"abandoned, an unknown id", func() error { return abandon("whs_none") }, store.ErrNotFound, false},
			{"abandoned", func() error { return abandon(kept.ID) }, nil, true},
			{"a name", func() error { return patch(AccountPatch{Name: &name}) }, nil, false},
			{"a mode", func() error { return patch(AccountPatch{Mode: &setup}) }, nil, true},
			{"the same mode", func() error { return patch(AccountPatch{Mode: &setup}) }, nil, false},
		} {
			before := q.EndpointsVersion()
			wantErr(t, test.call(), test.err)
			if raised := q.EndpointsVersion() > before; raised != test.raises {
				t.Errorf("%s: endpoints are to be read again: %t", test.what, raised)
			}
		}
	})
}
