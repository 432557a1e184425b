package central

import (
	"context"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/deliveries"
)

// TestClocksOfOrigins has two origins share a PostgreSQL database, one of them with
// a clock that is an hour ahead or behind: neither takes a delivery that the other
// has a lease on, and both try again when it is due.
func TestClocksOfOrigins(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			ctx := context.Background()
			p := place{"postgres", centraltest.Postgres(t)}
			wrongClock := func() time.Time { return time.Now().Add(off) }
			right, wrong := open(t, p), openWith(t, p, Config{Local: wrongClock})
			if apart := right.Now().Sub(wrong.Now()); apart.Abs() > time.Minute {
				t.Errorf("the origins' times are %v apart", apart)
			}
			account := newAccount(t, right, store.ModeLive)
			s := subscriptionFor(account.ID, store.EventClientContacted)
			noError(t, right.AddSubscription(ctx, s))
			_, _, err := wrong.AddContact(ctx, store.Contact{AccountID: account.ID, ClientID: "c", Channel: "phone"})
			noError(t, err)

			claim := func(db *DB, owner string) ([]deliveries.Claim, []string) {
				t.Helper()
				claims, more, err := db.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: owner, Lease: 10 * time.Minute, Subscriptions: []string{s.ID}, Each: 10})
				noError(t, err)
				return claims, more
			}
			claims, _ := claim(right, "right")
			// What is due now by one may be due some milliseconds on by the other, which
			// asked the database for the time in a busier moment.
			for end := time.Now().Add(time.Minute); len(claims) == 0 && time.Now().Before(end); {
				claims, _ = claim(right, "right")
			}
			if len(claims) != 1 {
				t.Fatalf("%d deliveries are due that the other origin has made, want 1", len(claims))
			}
			stolen, more := claim(wrong, "wrong")
			if len(stolen)+len(more) != 0 {
				t.Fatalf("the other origin claims %d that are leased, and wants %v", len(stolen), more)
			}
			near(t, "the end of the lease", nextDue(t, wrong), wrongClock().Add(10*time.Minute))

			outcome := func(owner string, next time.Time) []deliveries.Outcome {
				return []deliveries.Outcome{{Owner: owner, Attempt: store.Attempt{DeliveryID: claims[0].ID}, State: store.StatePending, NextAt: next}}
			}
			noError(t, right.RecordOutcomes(ctx, outcome("right", claims[0].NextAt)))
			claims, _ = claim(wrong, "wrong")
			if len(claims) != 1 {
				t.Fatalf("%d deliveries are due that the lease ended of, want 1", len(claims))
			}
			near(t, "when it was due", claims[0].NextAt, wrongClock())
			noError(t, wrong.RecordOutcomes(ctx, outcome("wrong", wrongClock().Add(5*time.Minute))))
			near(t, "the next try", nextDue(t, right), time.Now().Add(5*time.Minute))
		})
	}
}

// nextDue returns when a process would look for something due again.
func nextDue(t *testing.T, db *DB) time.Time {
	t.Helper()
	_, _, err := db.Due(context.Background(), 1, 0) // walks the queue
	noError(t, err)
	due, next, err := db.Due(context.Background(), 1, 0)
	if noError(t, err); len(due) != 0 {
		t.Errorf("%v are due", due)
	}
	return next
}

// near expects a time that differs from another by less than a minute.
func near(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if got.Sub(want).Abs() > time.Minute {
		t.Errorf("%s is %v, want about %v", what, got, want)
	}
}
