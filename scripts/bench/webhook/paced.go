package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/webhook"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
)

// Of paced and hang.
const (
	pacedRate   = 600 // deliveries a second
	pacedTime   = 2 * time.Second
	pacedRounds = 3

	// hangTimeout of a try is less than a sender's default, and hangTime more than two
	// of it, so that hanging tries end, and others begin, while it is measured.
	hangTimeout = 3 * time.Second
	hangTime    = 7 * time.Second
	aloneTime   = 4 * time.Second
	hangRounds  = 2
)

// steadyLoad is a load of events at an even rate.
type steadyLoad struct {
	targets   []string
	perSecond int // events
	length    time.Duration
	timeout   time.Duration // of a try; 0: the sender's default
}

// paced writes events at a steady rate and measures, for each delivery, the
// time from the event's answer to its arrival. The figure is the median of the
// rounds' p99.
func (b *bench) paced(ctx context.Context, d database) error {
	var p99s []float64
	for range pacedRounds {
		latencies, err := b.steady(ctx, d, steadyLoad{targets: b.targets("paced", endpoints), perSecond: pacedRate / endpoints, length: pacedTime})
		if err != nil {
			return err
		}
		p50, p99 := harness.Quantile(latencies, 0.5), harness.Quantile(latencies, 0.99)
		b.Printf("%s: %d deliveries paced, p50 %v, p99 %v, worst %v", d.kind, len(latencies), p50, p99, latencies[len(latencies)-1])
		p99s = append(p99s, harness.Milliseconds(p99))
	}
	b.Worst("paced_p99_ms", harness.Median(p99s), "ms", false)
	return nil
}

// hang compares the latencies of the healthy endpoints, with one of ten hanging, to
// those with none.
func (b *bench) hang(ctx context.Context, d database) error {
	healthy := b.targets("healthy", 10)
	hanging := append(healthy[:9:9], b.receiver.URL+"/hang")
	var alone, beside []time.Duration
	for range hangRounds { // in turn: what else the machine does changes
		for _, part := range []struct {
			targets []string
			length  time.Duration
			into    *[]time.Duration
		}{{healthy, aloneTime, &alone}, {hanging, hangTime, &beside}} {
			before := b.receiver.hung.Load()
			latencies, err := b.steady(ctx, d, steadyLoad{part.targets, pacedRate / 10, part.length, hangTimeout})
			if err != nil {
				return err
			}
			*part.into = append(*part.into, latencies...)
			b.Printf("%s: %d of %d endpoints answer, %d tries hang: p50 %v, p99 %v", d.kind, answering(part.targets), len(part.targets),
				b.receiver.hung.Load()-before, harness.Quantile(latencies, 0.5), harness.Quantile(latencies, 0.99))
		}
	}
	slices.Sort(alone)
	slices.Sort(beside)
	ratio := func(name string, q float64) {
		with, without := harness.Quantile(beside, q), harness.Quantile(alone, q)
		b.Worst(name, float64(with)/float64(without), "ratio", false)
	}
	ratio("hang_ratio", 0.5)
	ratio("hang_p99_ratio", 0.99)
	return nil
}

// answering counts the targets that answer.
func answering(targets []string) (n int) {
	for _, target := range targets {
		if !strings.HasSuffix(target, "/hang") {
			n++
		}
	}
	return n
}

// steady writes events at a rate and returns the sorted latencies of the
// deliveries to endpoints that answer.
func (b *bench) steady(ctx context.Context, d database, l steadyLoad) ([]time.Duration, error) {
	o, end, err := b.fresh(ctx, d, l.targets, webhook.Config{Timeout: l.timeout})
	if err != nil {
		return nil, err
	}
	defer end()
	arrived, stop := b.receiver.recorded()
	defer stop()
	warm := l.perSecond // the first second opens connections and is not counted
	total := warm + l.perSecond*int(l.length/time.Second)
	written, err := o.pace(ctx, total, warm, l.perSecond)
	if err != nil {
		return nil, err
	}
	if err := haveCome(ctx, arrived, total*answering(l.targets)); err != nil {
		return nil, err
	}
	return arrived.Waits(written), nil
}

// pace writes total events at a rate and returns when each was written, but for
// the first ones, which warm up.
func (o *origin) pace(ctx context.Context, total, warm, perSecond int) (map[string]time.Time, error) {
	written := map[string]time.Time{}
	var mu sync.Mutex
	var writers errgroup.Group
	tick := time.Tick(time.Second / time.Duration(perSecond))
	for n := range total {
		<-tick
		writers.Go(func() error {
			id, err := hooks.Fire(ctx, o.db, o.account)
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
