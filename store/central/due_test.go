package central

import (
	"context"
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
		due, next, err := db.Due(ctx, 7)
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
				Holds: func(id string) bool { return q.held[id].After(q.clock.at) }, Held: len(q.held),
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
		if _, next, err := q.Due(ctx, 1); err != nil || next.IsZero() || next.After(q.clock.at.Add(time.Minute)) {
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
		_, _, err := q.Due(ctx, 0) // reads the queue
		noError(t, err)
		var told []string
		for range subs {
			due, next, err := q.Due(ctx, 2)
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
