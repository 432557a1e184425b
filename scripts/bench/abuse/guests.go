package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"partneredge/host"
	"partneredge/host/hosttest/hostile"
	"partneredge/scripts/bench/harness"
)

const (
	guestRounds  = 5
	guestCPU     = 50 * time.Millisecond  // the limit that is attacked
	guestWall    = 100 * time.Millisecond // and the other one, in rounds of its own
	guestLong    = 10 * time.Second       // the limit that is not
	guestCeiling = 128 << 20              // of the memory of all sandboxes
	guestsAtOnce = 32
	gcEvery      = time.Millisecond
	sizeEvery    = 2 * time.Millisecond
)

// guests runs each hostile guest by itself and measures how far it gets beyond its
// limits: the worst guest counts, of each the median of some calls, since a thread that
// had to wait for its processor is not the guest's doing.
func (b *bench) guests(ctx context.Context) error {
	var worst overrun
	for _, g := range hostile.Guests() {
		got, err := b.guest(ctx, g)
		if err != nil {
			return fmt.Errorf("guest that %s: %w", g.Name, err)
		}
		b.Printf("a guest that %s: %v beyond its CPU limit, %v beyond its wall limit, the world stopped within %v, memory %.2f of the ceiling",
			g.Name, got.cpu, got.wall, got.stop, got.memory)
		worst = overrun{max(worst.cpu, got.cpu), max(worst.wall, got.wall), max(worst.stop, got.stop), max(worst.memory, got.memory)}
	}
	b.Figure("cpu_overrun_ms", harness.Milliseconds(worst.cpu), "ms")
	b.Figure("wall_overrun_ms", harness.Milliseconds(worst.wall), "ms")
	b.Figure("stop_the_world_ms", harness.Milliseconds(worst.stop), "ms")
	b.Figure("memory_over_ceiling", worst.memory, "ratio")
	return nil
}

// overrun holds by how much a guest exceeds its limits.
type overrun struct {
	cpu, wall time.Duration // beyond the limits
	stop      time.Duration // until every processor has stopped for the garbage collector
	memory    float64       // of the process, with many sandboxes of the guest's, over their ceiling
}

func (b *bench) guest(ctx context.Context, g hostile.Guest) (got overrun, err error) {
	r, err := host.New(ctx, host.Config{Memory: guestCeiling, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return got, err
	}
	defer func() { _ = r.Close(context.WithoutCancel(ctx)) }()
	open := func(cpu, wall time.Duration) (m *host.Module, err error) {
		return g.Open(ctx, r, host.Limits{CPU: cpu, Wall: wall, Sandboxes: guestsAtOnce, Wait: guestLong})
	}
	m, err := open(guestCPU, guestLong)
	if err != nil {
		return got, err
	}
	if !slices.Contains(g.Ends, host.WallDeadline) { // it does not wait for ever
		got.cpu, got.stop = attacks(ctx, m, guestCPU)
		got.memory, err = memoryOf(ctx, m)
	}
	m.Close(ctx)
	if err != nil {
		return got, err
	}
	if m, err = open(guestLong, guestWall); err != nil {
		return got, err
	}
	got.wall, _ = attacks(ctx, m, guestWall)
	m.Close(ctx)
	return got, nil
}

// attacks returns by how much calls of a guest overrun a limit, and how long it took
// meanwhile to stop the world.
func attacks(ctx context.Context, m *host.Module, limit time.Duration) (over, stop time.Duration) {
	var overs, stops []time.Duration
	for range guestRounds {
		done := make(chan struct{})
		var collector sync.WaitGroup
		before := stopping()
		collector.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(gcEvery):
					var s runtime.MemStats
					runtime.ReadMemStats(&s) // stops the world, and does nothing long
				}
			}
		})
		began := time.Now()
		_ = hostile.Attack(ctx, m) // how it ends is what tests look at
		overs = append(overs, max(0, time.Since(began)-limit))
		close(done)
		collector.Wait()
		stops = append(stops, longest(before, stopping()))
	}
	return harness.Median(overs), harness.Median(stops)
}

// stopping returns how long it took to stop the world up to now.
func stopping() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/other:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
}

// longest returns the upper end of the highest bucket that grew.
func longest(before, after *metrics.Float64Histogram) time.Duration {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > before.Counts[i] {
			return time.Duration(after.Buckets[i+1] * float64(time.Second))
		}
	}
	return 0
}

// memoryOf runs a guest's attack in many sandboxes at once, and returns by how much the
// process grows meanwhile, over the ceiling of its sandboxes.
func memoryOf(ctx context.Context, m *host.Module) (float64, error) {
	debug.FreeOSMemory()
	before, err := harness.ResidentMiB("self")
	if err != nil {
		return 0, err
	}
	peak, err := harness.MostBeside(sizeEvery, func() error {
		var calls sync.WaitGroup
		for range guestsAtOnce {
			calls.Go(func() { _ = hostile.Attack(ctx, m) })
		}
		calls.Wait()
		return nil
	}, func() (float64, error) { return harness.ResidentMiB("self") })
	return max(0, peak-before) * (1 << 20) / guestCeiling, err
}
