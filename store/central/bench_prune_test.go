package central

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/deliveries"
)

// BenchmarkPrune removes an old log of b.N events with 20 deliveries each while others
// are made and delivered as fast as they can be, and reports how many deliveries a
// second go and come. Retention rests as long as each of its slices took, as an origin's
// does.
//
//	go test -run - -bench Prune -benchtime 3000x ./store/central
func BenchmarkPrune(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchPrune(b, place{"sqlite", filepath.Join(b.TempDir(), "bench.db")}) })
	b.Run("postgres", func(b *testing.B) { benchPrune(b, place{"postgres", centraltest.Postgres(b)}) })
}

func benchPrune(b *testing.B, at place) {
	const subscriptions = 20
	ctx := context.Background()
	var ahead atomic.Int64
	began := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	start := time.Now()
	d := openWith(b, at, Config{Now: func() time.Time { return began.Add(time.Since(start)).Add(time.Duration(ahead.Load())) }})
	accounts := benchAccounts(b, d, subscriptions)
	claimed := make(chan []deliveries.Claim, 100_000)
	noError(b, d.SetClaimer(&deliveries.Claimer{
		Owner: "bench", Lease: time.Hour,
		Accept:  func(string) bool { return true },
		Claimed: func(c []deliveries.Claim) { claimed <- c },
	}))
	var made atomic.Int64
	var sender sync.WaitGroup
	sender.Go(func() {
		for claims := range claimed {
			for more := true; more && len(claims) < 1000; {
				select {
				case c, open := <-claimed:
					claims, more = append(claims, c...), open
				default:
					more = false
				}
			}
			if err := d.RecordOutcomes(ctx, benchOutcomes(claims)); err != nil {
				b.Error(err)
			}
			made.Add(int64(len(claims)))
		}
	})
	noError(b, d.MakePartitions(ctx, day))
	benchInsert(b, d, accounts)
	for made.Load() < int64(b.N*subscriptions) {
		time.Sleep(time.Millisecond)
	}
	ahead.Store(int64(40 * day))
	noError(b, d.MakePartitions(ctx, day))
	made.Store(0)
	var fired atomic.Int64
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if fired.Load()*subscriptions > made.Load()+10_000 { // no further ahead of the sender
					time.Sleep(time.Millisecond)
					continue
				}
				fired.Add(1)
				if _, _, err := d.AddFiring(ctx, store.Firing{AccountID: accounts[i%len(accounts)], Name: "price_drop", Action: "notified_agent"}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ResetTimer()
	begin := time.Now()
	benchRetention(b, d, d.db.Now().Add(-30*day))
	took := time.Since(begin)
	come := made.Load()
	b.StopTimer()
	close(stop)
	writers.Wait()
	noError(b, d.SetClaimer(nil))
	close(claimed)
	sender.Wait()
	b.ReportMetric(float64(b.N*subscriptions)/took.Seconds(), "pruned/s")
	b.ReportMetric(float64(come)/took.Seconds(), "made/s")
}

func benchRetention(b *testing.B, d *DB, before time.Time) {
	ctx, cursor := context.Background(), deliveries.PruneCursor{}
	rest := func(began time.Time) { time.Sleep(time.Since(began)) }
	for n := 1; n > 0; {
		began := time.Now()
		n = must(d.PruneDeliveries(ctx, before, 1000, &cursor))(b)
		rest(began)
	}
	for more := true; more; {
		began := time.Now()
		var err error
		if more, err = d.DropPartition(ctx, before); errors.Is(err, store.ErrUnavailable) {
			more, err = true, nil // others use the log: again
		}
		noError(b, err)
		rest(began)
	}
}
