package central

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// dueSet has the subscriptions that a process was told to have deliveries due, and from
// which it has yet to claim.
type dueSet struct {
	mu   sync.Mutex
	told []string
}

// take empties the set, once it has all that is due.
func (d *dueSet) take(ctx context.Context, db *DB) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		due, next, err := db.Due(ctx, 7, 15*time.Minute)
		if err != nil {
			return nil, err
		}
		d.told = append(d.told, due...)
		if next.IsZero() || next.After(db.Now()) {
			slices.Sort(d.told)
			told := slices.Compact(d.told)
			d.told = nil
			return told, nil
		}
	}
}

// put adds what claims left.
func (d *dueSet) put(more []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, more...)
}

// TestDueTellsOnce: a subscription is listed once, and again when its claims have come to
// their end and something new waits, or a lease ends.
func TestDueTellsOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		slices.Sort(q.subs)
		expect := func(what string, want ...string) {
			t.Helper()
			if got := must(new(dueSet).take(ctx, q.DB))(t); !slices.Equal(got, want) {
				t.Errorf("%s: told of %v, want %v", what, got, want)
			}
		}
		claim := func(want int, most int, subs ...string) (more []string) {
			t.Helper()
			claims, more, err := q.ClaimDeliveries(ctx, deliveries.ClaimRequest{
				Owner: "w", Lease: time.Minute, Subscriptions: subs, Each: most,
				Holds: func(id string) bool { return q.held[id].After(q.clock.at) }, Held: heldOf(subs, len(q.held)),
			})
			noError(t, err)
			for _, c := range claims {
				q.held[c.ID] = q.clock.at.Add(time.Minute)
			}
			if len(claims) != want {
				t.Errorf("claimed %d, want %d", len(claims), want)
			}
			return more
		}
		expect("nothing waits")
		q.fire(t)
		q.fire(t)
		expect("new", q.subs...)
		expect("told already")
		if more := claim(3, 1, q.subs...); !slices.Equal(more, q.subs) {
			t.Errorf("more of %v", more)
		}
		expect("told by the claim")
		if more := claim(2, 5, q.subs[:2]...); len(more) != 0 {
			t.Errorf("more of %v", more)
		}
		q.fire(t)
		expect("new after the last claim", q.subs[:2]...)
		claim(4, 5, q.subs...)
		if _, next, err := q.Due(ctx, 1, 0); err != nil || next.IsZero() || next.After(q.clock.at.Add(time.Minute)) {
			t.Errorf("next at %v, %v", next, err)
		}
		q.clock.at = q.clock.at.Add(2 * time.Minute)
		clear(q.held)
		expect("their leases have ended", q.subs...)

		noError(t, q.SetClaimer(&deliveries.Claimer{
			Owner: "w", Lease: time.Minute, Accept: func(string) bool { return false }, Claimed: func([]deliveries.Claim) {},
		}))
		expect("another claimer", q.subs...)
	})
}

// TestDueInOrder has more subscriptions than one call lists, and than one slice reads
// of the whole queue: those that have been due for longest come first.
func TestDueInOrder(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 0)
		var subs []string
		for range 5 {
			s := subscriptionFor(q.account, store.EventSentinelFired)
			noError(t, q.AddSubscription(ctx, s))
			subs = append(subs, s.ID)
			q.fire(t)
		}
		_, _, err := q.Due(ctx, 0, 0) // reads the queue
		noError(t, err)
		var told []string
		for range subs {
			due, next, err := q.Due(ctx, 2, 0)
			noError(t, err)
			told = append(told, due...)
			if len(told) < len(subs) == (next.IsZero() || next.After(q.clock.at)) {
				t.Errorf("after %d the next at %v", len(told), next)
			}
		}
		if !slices.Equal(told, subs) {
			t.Errorf("told of %v, want %v", told, subs)
		}
	})
}

// TestDueAfterTheClockWasPutBack: what waits for a time that is far ahead once the clock was
// put back is due, whether the process has seen that or was started since, and beside what is
// due by the new time. What is leased is due when a lease would have ended.
func TestDueAfterTheClockWasPutBack(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		slices.Sort(q.subs)
		q.fire(t)
		fail := func(claims []deliveries.Claim) {
			t.Helper()
			var outcomes []deliveries.Outcome
			for _, c := range claims {
				outcomes = append(outcomes, deliveries.Outcome{
					Attempt: store.Attempt{DeliveryID: c.ID, Number: c.Attempts + 1, ID: store.NewID("dlv", q.clock.at), StartedAt: q.clock.at},
					State:   store.StatePending, NextAt: q.clock.at.Add(5 * time.Second), SubscriptionID: c.SubscriptionID,
				})
				delete(q.held, c.ID)
			}
			noError(t, q.RecordOutcomes(ctx, outcomes))
		}
		expect := func(what string, want int) (claims []deliveries.Claim) {
			t.Helper()
			claims = q.claim(t, 5)
			if len(claims) != want {
				t.Errorf("%s: claimed %d, want %d", what, len(claims), want)
			}
			return claims
		}
		fail(expect("new", 2))
		expect("tried a moment ago", 0)
		q.clock.at = q.clock.at.Add(-time.Hour)
		q.fire(t) // beside what waits
		fail(expect("the clock was put back", 4))
		q.clock.at = q.clock.at.Add(-5 * time.Minute)
		expect("put back by less than anything may wait", 0)
		q.clock.at = q.clock.at.Add(6 * time.Minute)
		leased := expect("the time of the next try", 4)

		// The process is killed, and started with the clock put back.
		noError(t, q.Close())
		q.clock.at = q.clock.at.Add(-24 * time.Hour)
		q.DB, q.told, q.held = openWith(t, p, Config{Now: q.clock.now}), dueSet{}, make(map[string]time.Time)
		if p.kind == "postgres" {
			expect("leases of the killed process", 0)
			q.clock.at = q.clock.at.Add(time.Minute)
		}
		expect("started with the clock put back", len(leased))
	})
}

// TestDueOfALongerSchedule: what another version put further ahead than this one ever does is
// due then and no earlier, while the clock goes as it should.
func TestDueOfALongerSchedule(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := newQueued(t, p, 2)
		q.fire(t)
		q.record(t, store.StatePending, 24*time.Hour, q.claim(t, 5)...)
		noError(t, q.Close())
		q.DB, q.told = openWith(t, p, Config{Now: q.clock.now}), dueSet{}
		if got := q.claim(t, 5); len(got) != 0 {
			t.Errorf("a day before their time: claimed %d", len(got))
		}
		q.clock.at = q.clock.at.Add(24 * time.Hour)
		if got := q.claim(t, 5); len(got) != 2 {
			t.Errorf("at their time: claimed %d, want 2", len(got))
		}
	})
}

// TestClaimBesideAQueueInMemory: what a process holds of one long queue does not make its
// claims read as much of every other, and each gets what comes after what is held of it.
func TestClaimBesideAQueueInMemory(t *testing.T) {
	ctx := context.Background()
	q := newQueued(t, place{"sqlite", filepath.Join(t.TempDir(), "origin.db")}, 5)
	const waiting, held, each = 40, 25, 2
	for range waiting {
		q.fire(t)
	}
	long := q.subs[0]
	claims, _, err := q.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: "w", Lease: time.Minute, Subscriptions: []string{long}, Each: held})
	noError(t, err)
	holds := make(map[string]bool)
	for _, c := range claims {
		holds[c.ID] = true
	}
	read := 0
	claims, more, err := q.ClaimDeliveries(ctx, deliveries.ClaimRequest{
		Owner: "w", Lease: time.Minute, Subscriptions: q.subs, Each: each, Held: map[string]int{long: held, q.subs[1]: 0},
		Holds: func(id string) bool { read++; return holds[id] },
	})
	noError(t, err)
	got := make(map[string]int)
	for _, c := range claims {
		if got[c.SubscriptionID]++; holds[c.ID] {
			t.Errorf("%s is claimed again", c.ID)
		}
	}
	for _, id := range q.subs {
		if got[id] != each || !slices.Contains(more, id) {
			t.Errorf("%d are claimed of %s, want %d and that there are more: %v", got[id], id, each, more)
		}
	}
	if !slices.IsSortedFunc(claims, func(a, b deliveries.Claim) int { return a.NextAt.Compare(b.NextAt) }) {
		t.Error("they are not in the order in which they are due")
	}
	if most := waiting + 4*(each+1); read > most {
		t.Errorf("%d deliveries were read, want at most %d", read, most)
	}
}
