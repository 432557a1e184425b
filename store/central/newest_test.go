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

// TestTimesAhead has an account with firings of a source whose clock is ahead. A firing of
// now, in a transaction with those of other accounts, takes its time without reading the
// times of the account. Those that are as far ahead as others move to one that is free.
func TestTimesAhead(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		d := open(t, p)
		first, ahead := newAccount(t, d, store.ModeLive).ID, newAccount(t, d, store.ModeLive).ID
		now := d.Now()
		for _, at := range []time.Duration{-time.Second, 5 * time.Second, time.Hour} {
			_, _, err := d.AddFiring(ctx, store.Firing{AccountID: ahead, Name: "n", Action: "a", TriggeredAt: now.Add(at)})
			noError(t, err)
		}
		noError(t, d.change(ctx, ahead, func(ctx context.Context, tx *tx) error {
			if err := tx.Lock(ctx, []string{ahead, first}); err != nil {
				return err
			}
			of := func(account string) series { return series{"firings", "triggered_at", account} }
			move := func(account string, at, want time.Time) {
				t.Helper()
				if got := must(tx.uniqueTime(ctx, of(account), at))(t); !got.Equal(want) {
					t.Errorf("%s after now became %s, want %s", at.Sub(now), got.Sub(now), want.Sub(now))
				}
			}
			move(first, now, now)
			move(ahead, now.Add(6*time.Second), now.Add(6*time.Second))
			if tx.times[of(ahead)].used != nil {
				t.Error("the times of the account were read, since one of them is an hour ahead")
			}
			upto := store.TimeOf(tx.newest[of("")].upto) // the next time has a firing
			err := insertFirings.Run(ctx, tx.Tx, []store.Firing{{ID: "fir_next", AccountID: ahead, TriggeredAt: upto.Add(time.Microsecond)}})
			if err != nil {
				return err
			}
			move(ahead, upto, upto)
			move(ahead, upto, upto.Add(2*time.Microsecond))
			for _, at := range []time.Duration{-time.Second, 5 * time.Second, time.Hour} {
				move(ahead, now.Add(at), now.Add(at+time.Microsecond))
				move(ahead, now.Add(at), now.Add(at+2*time.Microsecond))
			}
			return nil
		}))
	})
}
