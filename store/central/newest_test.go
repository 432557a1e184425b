package central

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/store"
)

// TestTimesOfManyAccounts writes firings of many accounts at once, all at times that each
// account has already or is about to have: the first account of a shared transaction is
// read by itself and the others together, and no two firings of one have the same time.
func TestTimesOfManyAccounts(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		at := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour)
		const accounts, rounds = 20, 4
		var ids []string
		for i := range accounts {
			a := newAccount(t, db, store.ModeLive)
			ids = append(ids, a.ID)
			if i%2 == 0 { // others have none
				_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n", Action: "a", TriggeredAt: at})
				noError(t, err)
			}
		}
		var writing errgroup.Group
		for n := range accounts * rounds {
			writing.Go(func() error {
				_, _, err := db.AddFiring(ctx, store.Firing{AccountID: ids[n%accounts], Name: "n", Action: "a", TriggeredAt: at.Add(time.Duration(n%3-1) * time.Microsecond)})
				return err
			})
		}
		noError(t, writing.Wait())
		for i, id := range ids {
			view, err := db.Firings(ctx, id, time.Time{}, 100)
			noError(t, err)
			seen := make(map[time.Time]bool)
			for _, f := range view.Items {
				seen[f.TriggeredAt] = true
			}
			if want := rounds + 1 - i%2; len(view.Items) != want || len(seen) != want {
				t.Errorf("account %d has %d firings at %d times, want %d", i, len(view.Items), len(seen), want)
			}
		}
	})
}
