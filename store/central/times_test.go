package central

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"partneredge/store"
)

// Many writers ask for the same few times. Each gets the first that is free
// from there on, and nobody another's.
func TestTimesAreUnique(t *testing.T) {
	const writers, rounds, span = 8, 20, 50
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := context.Background()
		a := newAccount(t, db, store.ModeSetup)
		var mu sync.Mutex
		seen := make(map[int64]bool)
		inParallel(writers, func() {
			for range rounds {
				asked := at.Add(time.Duration(rand.IntN(span)) * time.Microsecond)
				f, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, TriggeredAt: asked})
				if err != nil {
					t.Error(err)
					return
				}
				us := f.TriggeredAt.UnixMicro()
				mu.Lock()
				if seen[us] {
					t.Errorf("%v was given twice", f.TriggeredAt)
				}
				seen[us] = true
				mu.Unlock()
				if late := f.TriggeredAt.Sub(asked); late < 0 || late > writers*rounds*time.Microsecond {
					t.Errorf("asked for %v, given %v", asked, f.TriggeredAt)
				}
			}
		})
	})
}

// The last microsecond that can be written is taken: the next row of its time is refused,
// and an earlier one is kept.
func TestUniqueTimeAtTheEndOfTime(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := t.Context()
		a := newAccount(t, db, store.ModeLive)
		insight := func(at time.Time) store.Insight { return store.Insight{Headline: "h", CreatedAt: at} }
		_, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{insight(last), insight(last)})
		wantErr(t, err, store.ErrInvalid)
		for _, at := range []time.Time{last.Add(-time.Microsecond), last.Add(-time.Microsecond)} { // the second moves to last
			_, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{insight(at)})
			noError(t, err)
			_, _, err = db.AddFiring(ctx, store.Firing{AccountID: a.ID, TriggeredAt: at})
			noError(t, err)
		}
		for _, at := range []time.Time{last.Add(-time.Microsecond), last} {
			_, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{insight(at)})
			wantErr(t, err, store.ErrInvalid)
			_, _, err = db.AddFiring(ctx, store.Firing{AccountID: a.ID, TriggeredAt: at})
			wantErr(t, err, store.ErrInvalid)
		}
		if view := must(db.Insights(ctx, a.ID, time.Time{}, 0))(t); len(view.Items) != 2 || !view.Items[0].CreatedAt.Equal(last) {
			t.Errorf("kept are %+v", view.Items)
		}
		if view := must(db.Firings(ctx, a.ID, time.Time{}, 0))(t); len(view.Items) != 2 || !view.Items[0].TriggeredAt.Equal(last) {
			t.Errorf("kept are %+v", view.Items)
		}
	})
}

// More rows stand before and at the time asked for than are read at once.
func TestUniqueTimeThroughManyRows(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := context.Background()
		a := newAccount(t, db, store.ModeSetup)
		const many = 2*timesRead + 10
		run := make([]store.Insight, many)
		for i := range run {
			run[i] = store.Insight{Headline: "h", CreatedAt: at}
		}
		_, _, err := db.AddCoachingRun(ctx, a.ID, run)
		noError(t, err)
		for i, asked := range []time.Duration{0, many - 10, 10_000, timesRead + 1} {
			added, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "h", CreatedAt: at.Add(asked * time.Microsecond)}})
			noError(t, err)
			want := []time.Duration{many, many + 1, 10_000, many + 2}[i]
			if got := added[0].CreatedAt.Sub(at) / time.Microsecond; got != want {
				t.Errorf("asked for the %dth microsecond, given the %dth, want the %dth", asked, got, want)
			}
		}
	})
}
