package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/harness"
)

// Of paced and hang: how many events a second, for how long.
const (
	pacedRate = 600 // deliveries a second
	pacedTime = 6 * time.Second
	hangTime  = 2 * time.Second // twice with, twice without
)

// paced writes events at a steady rate and measures, for each delivery, the
// time from the event's answer to its arrival.
func (b *bench) paced(ctx context.Context, d database) error {
	latencies, err := b.steady(ctx, d, b.targets("paced", endpoints), pacedRate/endpoints, pacedTime)
	if err != nil {
		return err
	}
	p50, p99 := harness.Quantile(latencies, 0.5), harness.Quantile(latencies, 0.99)
	b.Printf("%s: %d deliveries paced, p50 %v, p99 %v, worst %v", d.kind, len(latencies), p50, p99, latencies[len(latencies)-1])
	b.Worst("paced_p99_ms", harness.Milliseconds(p99), "ms", false)
	return nil
}

// hang compares the healthy endpoints' median with one of ten hanging to that
// with none.
func (b *bench) hang(ctx context.Context, d database) error {
	healthy := b.targets("healthy", 10)
	hanging := append(healthy[:9:9], b.receiver.server.URL+"/hang")
	var alone, beside []time.Duration
	for range 2 { // in turn: what else the machine does changes
		for _, part := range []struct {
			targets []string
			into    *[]time.Duration
		}{{healthy, &alone}, {hanging, &beside}} {
			latencies, err := b.steady(ctx, d, part.targets, pacedRate/10, hangTime)
			if err != nil {
				return err
			}
			*part.into = append(*part.into, latencies...)
		}
	}
	slices.Sort(alone)
	slices.Sort(beside)
	with, without := harness.Quantile(beside, 0.5), harness.Quantile(alone, 0.5)
	b.Printf("%s: healthy p50 %v with one of ten hanging, %v with none", d.kind, with, without)
	b.Worst("hang_ratio", float64(with)/float64(without), "ratio", false)
	return nil
}

// steady writes events at a rate and returns the sorted latencies of the
// deliveries to endpoints that answer.
func (b *bench) steady(ctx context.Context, d database, targets []string, perSecond int, length time.Duration) ([]time.Duration, error) {
	o, end, err := b.fresh(ctx, d, targets)
	if err != nil {
		return nil, err
	}
	defer end()
	arrived, stop := b.receiver.recorded()
	defer stop()
	from := b.receiver.count.Load()
	warm := perSecond // the first second opens connections and is not counted
	total := warm + perSecond*int(length/time.Second)
	written, err := o.pace(ctx, total, warm, perSecond)
	if err != nil {
		return nil, err
	}
	answering := 0
	for _, target := range targets {
		if !strings.HasSuffix(target, "/hang") {
			answering++
		}
	}
	if err := b.arrived(ctx, from+int64(total*answering)); err != nil {
		return nil, err
	}
	var latencies []time.Duration
	for event, at := range written {
		for _, came := range arrived.at[event] {
			latencies = append(latencies, max(0, came.Sub(at)))
		}
	}
	slices.Sort(latencies)
	return latencies, nil
}

// pace writes total events at a rate and returns when each was written, but for
// the first ones, which warm up.
func (o *origin) pace(ctx context.Context, total, warm, perSecond int) (map[string]time.Time, error) {
	written := map[string]time.Time{}
	var mu sync.Mutex
	var writers errgroup.Group
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for n := range total {
		<-tick.C
		writers.Go(func() error {
			id, err := o.event(ctx)
			if err == nil && n >= warm {
				mu.Lock()
				written[id] = time.Now()
				mu.Unlock()
			}
			return err
		})
	}
	return written, writers.Wait()
}
