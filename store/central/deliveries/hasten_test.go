package deliveries_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/deliveries"
)

// TestHastenInSlices: what waits for a time far ahead is due once the clock was put back,
// also where it fills several transactions to the last row.
func TestHastenInSlices(t *testing.T) { onEach(t, hastenInSlices) }

// onEach runs a test on a new database of each kind.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	for kind, url := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "origin.db") },
		"postgres": centraltest.Postgres,
	} {
		t.Run(kind, func(t *testing.T) { test(t, url(t)) })
	}
}

// TestSlicesOfTheQueueAreNotSorted asks how slices of a long queue are found: none reads, or
// sorts, all that is left.
func TestSlicesOfTheQueueAreNotSorted(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db, err := central.Open(t.Context(), central.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		const long = 5000
		if err := db.FillQueue(t.Context(), "whs_1", long); err != nil {
			t.Fatal(err)
		}
		for what, plan := range db.SlicePlans(t, "whs_1", long-50) {
			if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Sort") || !strings.Contains(plan, "deliveries_queue") {
				t.Errorf("%s:\n%s", what, plan)
			}
		}
	})
}

func hastenInSlices(t *testing.T, url string) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var clock atomic.Pointer[time.Time]
	set := func(to time.Time) { clock.Store(&to) }
	began := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	set(began)
	db, err := central.Open(ctx, central.Config{URL: url, Now: func() time.Time { return *clock.Load() }})
	must(err)
	defer func() { must(db.Close()) }()
	db.SetHastenSlice(2)
	a, err := db.CreateAccount(ctx, store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	must(err)
	sub := store.Subscription{
		ID: "whs_1", AccountID: a.ID, KeyID: "key_1", Environment: store.Live,
		TargetURL: "https://partner.example/", Events: []string{store.EventSentinelFired}, Secret: "5ec7e7",
	}
	must(db.AddSubscription(ctx, sub))
	const several = 4
	for range several {
		_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n"})
		must(err)
	}
	set(began.Add(time.Second))
	claim := func() []deliveries.Claim {
		t.Helper()
		for { // until the walk has ended
			subs, next, err := db.Due(ctx, several, time.Minute)
			must(err)
			if len(subs) > 0 {
				claims, _, err := db.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: "w", Lease: time.Minute, Subscriptions: subs, Each: several})
				must(err)
				return claims
			}
			if next.IsZero() || next.After(*clock.Load()) {
				return nil
			}
		}
	}
	var outcomes []deliveries.Outcome
	for _, c := range claim() {
		outcomes = append(outcomes, deliveries.Outcome{
			Attempt: store.Attempt{DeliveryID: c.ID, Number: 1, ID: store.NewID("dlv", began), StartedAt: began},
			State:   store.StatePending, NextAt: began.Add(time.Minute), SubscriptionID: c.SubscriptionID,
		})
	}
	must(db.RecordOutcomes(ctx, outcomes))
	set(began.Add(-time.Hour))
	if claims := claim(); len(outcomes) != several || len(claims) != several {
		t.Errorf("claimed %d, and %d once the clock was put back, want %d", len(outcomes), len(claims), several)
	}
}
