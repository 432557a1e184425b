package central

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/deliveries"
)

// BenchmarkDeliveries takes events through the whole of a delivery's life, as
// many at a time as an origin has requests and workers, and reports each part
// alone and one after the other:
//
//	go test -run - -bench Deliveries -benchtime 3000x ./store/central
func BenchmarkDeliveries(b *testing.B) {
	for _, p := range []func(testing.TB) place{
		func(t testing.TB) place { return place{"sqlite", filepath.Join(t.TempDir(), "bench.db")} },
		func(t testing.TB) place { return place{"postgres", centraltest.Postgres(t)} },
	} {
		for _, subscriptions := range []int{1, 20} {
			where := ""
			b.Run(fmt.Sprint(subscriptions), func(b *testing.B) {
				at := p(b)
				where = at.kind
				b.Run(where+"/claimed", func(b *testing.B) { benchDeliveries(b, open(b, at), subscriptions) })
				b.Run(where+"/as-written", func(b *testing.B) { benchClaimer(b, open(b, at), subscriptions) })
			})
		}
	}
}

func benchDeliveries(b *testing.B, db *DB, subscriptions int) {
	ctx := context.Background()
	workers := 2
	if db.Kind() == "sqlite" {
		workers = 1 // it has one sender, which claims one after the other
	}
	ids := benchAccounts(b, db, subscriptions)
	total := b.N * subscriptions

	b.ResetTimer()
	begin, spent := time.Now(), processorTime(b)
	benchInsert(b, db, ids)
	inserted := time.Since(begin)

	var claims, records atomic.Int64 // nanoseconds
	begin = time.Now()
	var done atomic.Int64
	sender := &claimant{DB: db, held: make(map[string]bool)}
	inParallel(workers, func() {
		for done.Load() < int64(total) {
			start := time.Now()
			claimed, err := sender.claim(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			claims.Add(int64(time.Since(start)))
			outcomes := benchOutcomes(claimed)
			start = time.Now()
			if err := db.RecordOutcomes(ctx, outcomes); err != nil {
				b.Error(err)
				return
			}
			records.Add(int64(time.Since(start)))
			sender.recorded(claimed)
			done.Add(int64(len(claimed)))
		}
	})
	worked := time.Since(begin)
	b.StopTimer()
	rate := func(d time.Duration) float64 { return float64(total) / d.Seconds() }
	b.ReportMetric(rate(inserted), "inserted/s")
	b.ReportMetric(rate(time.Duration(claims.Load()/int64(workers))), "claimed/s")
	b.ReportMetric(rate(time.Duration(records.Load()/int64(workers))), "recorded/s")
	b.ReportMetric(rate(inserted+worked), "whole/s")
	b.ReportMetric(float64((processorTime(b)-spent).Microseconds())/float64(total), "cpu-us/delivery")
}

// benchClaimer has a Claimer with room for all, so nothing is claimed: what is
// measured is events in, and outcomes of all their deliveries in.
func benchClaimer(b *testing.B, db *DB, subscriptions int) {
	ids := benchAccounts(b, db, subscriptions)
	total := b.N * subscriptions
	claimed := make(chan []deliveries.Claim, b.N)
	noError(b, db.SetClaimer(&deliveries.Claimer{
		Owner: "bench", Lease: time.Minute,
		Accept:  func(string) bool { return true },
		Claimed: func(c []deliveries.Claim) { claimed <- c },
	}))
	b.ResetTimer()
	begin, spent := time.Now(), processorTime(b)
	var worker sync.WaitGroup
	worker.Go(func() {
		for done := 0; done < total; {
			claims := <-claimed
			for more := true; more && len(claims) < 1000; {
				select {
				case c := <-claimed:
					claims = append(claims, c...)
				default:
					more = false
				}
			}
			if err := db.RecordOutcomes(context.Background(), benchOutcomes(claims)); err != nil {
				b.Error(err)
				return
			}
			done += len(claims)
		}
	})
	benchInsert(b, db, ids)
	worker.Wait()
	b.StopTimer()
	b.ReportMetric(float64(total)/time.Since(begin).Seconds(), "whole/s")
	b.ReportMetric(float64((processorTime(b)-spent).Microseconds())/float64(total), "cpu-us/delivery")
}

// processorTime returns the processor time that this process has used. Unlike a rate it does not suffer
// from what else the machine does; of PostgreSQL it shows the client's part.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	noError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchAccountCount = 10

func benchAccounts(b *testing.B, db *DB, subscriptions int) (ids []string) {
	for range benchAccountCount {
		a := newAccount(b, db, store.ModeLive)
		ids = append(ids, a.ID)
		for range subscriptions {
			noError(b, db.AddSubscription(context.Background(), subscriptionFor(a.ID, store.EventSentinelFired)))
		}
	}
	return ids
}

// benchInsert writes b.N events, as many at a time as an origin has requests.
func benchInsert(b *testing.B, db *DB, accounts []string) {
	var next atomic.Int64
	inParallel(64, func() {
		for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
			_, _, err := db.AddFiring(context.Background(), store.Firing{
				AccountID: accounts[i%benchAccountCount], Name: "price_drop", Action: "notified_agent",
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}

func benchOutcomes(claims []deliveries.Claim) []deliveries.Outcome {
	outcomes := make([]deliveries.Outcome, len(claims))
	now := time.Now()
	for i, c := range claims {
		outcomes[i] = deliveries.Outcome{
			State: store.StateDelivered, SubscriptionID: c.SubscriptionID,
			Attempt: store.Attempt{
				ID: store.NewID("dlv", now), DeliveryID: c.ID, Number: 1, StartedAt: now,
				Latency: time.Millisecond, Status: 200, Excerpt: "ok", Headers: benchHeaders,
			},
		}
	}
	return outcomes
}

var benchHeaders = map[string]string{
	"content-type":      "application/json",
	"user-agent":        "partner-edge/1",
	"x-svc-event":       store.EventSentinelFired,
	"x-svc-event-id":    "evt_01h455vb4pex5vsknk084sn02q",
	"x-svc-delivery-id": "dlv_01h455vb4pex5vsknk084sn02q",
	"x-svc-timestamp":   "1767225600",
	"x-svc-signature":   "t=1767225600,v1=8b5f48702995c1598c573db1e21866a9b825d4a794d169d7060a03605796360b",
}

// inParallel runs fn in n goroutines and waits for them.
func inParallel(n int, fn func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(fn)
	}
	all.Wait()
}
