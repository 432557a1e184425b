package central

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/wasm/event"
)

// TestLateOutcome has the outcome of an earlier try come after that of a later
// one, as it does from a sender that was suspended while its lease ended. What
// the later one wrote stays, and the log has both tries.
func TestLateOutcome(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		q.fire(t)
		suspended := q.claim(t, 1)[0]
		q.clock.at = q.clock.at.Add(time.Minute) // its lease ends
		clear(q.held)
		second := q.claim(t, 1)[0]
		later := q.outcome(second, store.StatePending, time.Hour)
		later.Attempt.Number = 2 // the first was made, and its outcome is still to come
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{later}))
		want := must(q.Delivery(ctx, suspended.ID))(t)
		if want.Attempts != 2 || !want.NextAt.Equal(later.NextAt) {
			t.Fatalf("after the second try: %+v", want)
		}
		for _, late := range []store.State{store.StatePending, store.StateDead} {
			q.clock.at = q.clock.at.Add(time.Second)
			noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{q.outcome(suspended, late, time.Second)}))
			if got := must(q.Delivery(ctx, suspended.ID))(t); got != want {
				t.Errorf("a late outcome, %s: %+v, want %+v", late, got, want)
			}
		}
		attempts := must(q.Attempts(ctx, suspended.ID))(t)
		if len(attempts) != 2 {
			t.Errorf("%d attempts, want 2", len(attempts))
		}
		// A claim that ended without a try counts none.
		none := deliveries.Outcome{Owner: "w", State: store.StatePending, NextAt: later.NextAt, Attempt: store.Attempt{DeliveryID: suspended.ID}}
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{none}))
		got := must(q.Delivery(ctx, suspended.ID))(t)
		want.UpdatedAt = got.UpdatedAt
		if got != want {
			t.Errorf("a claim without a try: %+v, want %+v", got, want)
		}
		// The same number again is the same try, told twice.
		q.clock.at = q.clock.at.Add(time.Second)
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{func() deliveries.Outcome {
			o := q.outcome(suspended, store.StateDelivered, 0)
			o.Attempt.Number = 2
			return o
		}()}))
		if got := must(q.Delivery(ctx, suspended.ID))(t); got != want {
			t.Errorf("the second try, told again: %+v, want %+v", got, want)
		}
	})
}

// TestLateEndOfALease has an origin end a lease that it lost to another while the database
// was away: neither the other's lease nor the time of its next try is touched. A lease that
// has ended and that nobody took over can still be ended.
func TestLateEndOfALease(t *testing.T) {
	ctx := t.Context()
	q := newQueued(t, place{"postgres", centraltest.Postgres(t)}, 1)
	claim := func(owner string) (claims []deliveries.Claim) {
		t.Helper()
		claims, _, err := q.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: owner, Lease: time.Minute, Subscriptions: q.subs, Each: 10})
		noError(t, err)
		return claims
	}
	q.fire(t)
	lost := claim("a")
	if len(lost) != 1 {
		t.Fatalf("claimed %+v", lost)
	}
	c := lost[0]
	unlease := deliveries.Outcome{Owner: "a", State: store.StatePending, NextAt: c.NextAt, Attempt: store.Attempt{DeliveryID: c.ID}}
	q.clock.at = q.clock.at.Add(time.Minute) // the lease ends
	noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{unlease}))
	if n := len(claim("b")); n != 1 {
		t.Fatalf("%d can be claimed once the lease is ended, want 1", n)
	}

	noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{unlease}))
	if n := len(claim("a")); n != 0 {
		t.Errorf("%d claimed while another tries it", n)
	}

	failed := q.outcome(c, store.StatePending, 3*time.Minute)
	noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{failed}))
	noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{unlease}))
	if next := must(q.Delivery(ctx, c.ID))(t).NextAt; !next.Equal(failed.NextAt) {
		t.Errorf("another's try failed, and the next one is at %v, want %v", next, failed.NextAt)
	}
	if n := len(claim("a")); n != 0 {
		t.Errorf("%d claimed before the next try is due", n)
	}
}

// TestOutcomesAreWrittenAsAWhole has each of the statements fail that write an outcome:
// the caller is told, and nothing of it is there.
func TestOutcomesAreWrittenAsAWhole(t *testing.T) {
	ctx := t.Context()
	q := newQueued(t, place{"sqlite", filepath.Join(t.TempDir(), "central.db")}, 1)
	q.fire(t)
	c := q.claim(t, 1)[0]
	exec := func(statement string) {
		noError(t, q.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := t.Exec(ctx, statement)
			return err
		}))
	}
	want := must(q.Delivery(ctx, c.ID))(t)
	for _, statement := range []string{"UPDATE ON subscriptions", "INSERT ON attempts", "UPDATE ON deliveries"} {
		exec(`CREATE TRIGGER fails BEFORE ` + statement + ` BEGIN SELECT RAISE(FAIL, 'it fails'); END`)
		if err := q.RecordOutcomes(ctx, []deliveries.Outcome{q.outcome(c, store.StatePending, time.Hour)}); err == nil {
			t.Errorf("%s failed, and nobody is told", statement)
		}
		exec(`DROP TRIGGER fails`)
		if got := must(q.Delivery(ctx, c.ID))(t); got != want || len(must(q.Attempts(ctx, c.ID))(t)) != 0 {
			t.Errorf("%s failed: %+v, want %+v", statement, got, want)
		}
	}
	q.record(t, store.StatePending, time.Hour, c)
	if got := must(q.Delivery(ctx, c.ID))(t); got.Attempts != 1 {
		t.Errorf("then: %+v", got)
	}
}

// TestTestSubscriptionsAreNoTargets checks that what is made with a test key is in
// no list of a live sender: not of what a claimer accepts, nor of what is queued,
// nor as an endpoint that deliveries may go to.
func TestTestSubscriptionsAreNoTargets(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		s := subscriptionFor(q.account, store.EventSentinelFired)
		s.Environment = store.Test
		noError(t, q.AddSubscription(ctx, s))
		var asked []string
		noError(t, q.SetClaimer(&deliveries.Claimer{
			Owner: "t", Lease: time.Minute,
			Accept:  func(id string) bool { asked = append(asked, id); return false },
			Claimed: func([]deliveries.Claim) {},
		}))
		q.fire(t)
		if due := q.due(t); !slices.Equal(asked, q.subs) || !slices.Equal(due, q.subs) {
			t.Errorf("asked for %v, queued for %v, want %v", asked, due, q.subs)
		}
		endpoints := must(q.Endpoints(ctx, []string{s.ID, q.subs[0]}))(t)
		if endpoints[s.ID].Deliverable || !endpoints[q.subs[0]].Deliverable {
			t.Errorf("endpoints %+v", endpoints)
		}
	})
}

// TestRevocationInTheTransactionOfItsEvents revokes a subscription while events for
// it share the revocation's transaction, so that their deliveries are not in the
// table yet. None of them may come into it, nor reach the claimer, and those of the
// other subscription all do.
func TestRevocationInTheTransactionOfItsEvents(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		var mu sync.Mutex
		claimed := map[string]int{} // by subscription
		noError(t, q.SetClaimer(&deliveries.Claimer{
			Owner: "t", Lease: time.Minute,
			Accept: func(string) bool { return true },
			Claimed: func(all []deliveries.Claim) {
				mu.Lock()
				defer mu.Unlock()
				for _, c := range all {
					claimed[c.SubscriptionID]++
				}
			},
		}))
		noError(t, q.change(ctx, q.account, func(ctx context.Context, tx *tx) error {
			for range 3 {
				if _, err := tx.emit(ctx, q.account, store.EventSentinelFired, event.Firing{}); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `UPDATE subscriptions SET revoked_at = 1 WHERE id = ?`, q.subs[0]); err != nil {
				return err
			}
			if _, err := tx.deliveries.Cancel(ctx, q.account, q.subs[0]); err != nil {
				return err
			}
			_, err := tx.emit(ctx, q.account, store.EventSentinelFired, event.Firing{})
			return err
		}))
		if !maps.Equal(claimed, map[string]int{q.subs[1]: 4}) {
			t.Errorf("claimed %v", claimed)
		}
		for i, want := range []int{0, 4} {
			items, _, err := q.Deliveries(ctx, deliveries.Filter{SubscriptionID: q.subs[i]}, store.Page{})
			noError(t, err)
			if len(items) != want {
				t.Errorf("subscription %d: %d deliveries, want %d", i, len(items), want)
			}
		}
	})
}

// TestSilencedForGood: what happens while an account is set up is kept, goes to
// nobody, and is not delivered later either, whatever is asked for.
func TestSilencedForGood(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeSetup)
		s := subscriptionFor(a.ID, allEvents...)
		noError(t, db.AddSubscription(ctx, s))
		var asked int
		noError(t, db.SetClaimer(&deliveries.Claimer{
			Owner: "t", Lease: time.Minute,
			Accept:  func(string) bool { asked++; return true },
			Claimed: func([]deliveries.Claim) { asked++ },
		}))
		_, fired, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n"})
		noError(t, err)
		_, ran, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "h"}})
		noError(t, err)
		_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: new(store.ModeLive)})
		noError(t, err)
		if n := recovered(t, db, s.ID, store.Span{Since: a.CreatedAt}); n != 0 {
			t.Errorf("%d recovered", n)
		}
		for _, e := range []*store.Event{fired, ran} {
			if kept := must(db.Event(ctx, e.ID))(t); !kept.Silenced {
				t.Errorf("%s is not silenced", kept.Type)
			}
		}
		items, _, err := db.Deliveries(ctx, deliveries.Filter{SubscriptionID: s.ID}, store.Page{})
		if noError(t, err); len(items) != 0 || asked != 0 || len(must(new(dueSet).take(ctx, db))(t)) != 0 {
			t.Errorf("%d deliveries, claimer asked %d times", len(items), asked)
		}
	})
}

// TestJoinedAt reads back when an agent joined, which is not when the account was
// made.
func TestJoinedAt(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		clock := &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
		db := openWith(t, p, Config{Now: clock.now})
		joined := time.Date(2019, 2, 3, 4, 5, 6, 789_000, time.UTC)
		made := must(db.CreateAccount(ctx, store.Account{Name: "A", Agent: store.Agent{Email: "a@b.c", FullName: "A", JoinedAt: joined}}))(t)
		today := must(db.CreateAccount(ctx, store.Account{Name: "B", Agent: store.Agent{Email: "b@b.c", FullName: "B"}}))(t)
		clock.at = clock.at.Add(time.Hour)
		_, _, err := db.UpdateAccount(ctx, made.ID, AccountPatch{FullName: new("C")})
		noError(t, err)
		for id, want := range map[string]time.Time{made.ID: joined, today.ID: today.CreatedAt} {
			profile, _, err := db.Profile(ctx, id)
			noError(t, err)
			if got := must(db.Account(ctx, id))(t); !got.Agent.JoinedAt.Equal(want) || !profile.Agent.JoinedAt.Equal(want) {
				t.Errorf("joined at %v, profile %v, want %v", got.Agent.JoinedAt, profile.Agent.JoinedAt, want)
			}
		}
	})
}
