package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// heapFloor is how big a node's heap becomes before garbage is collected, in
// bytes. Go starts whenever the heap has doubled. A node that holds little would
// collect twice a second under load, for 20 ms each, and a request in thirty
// wait for it; with this it is less than one in a hundred.
const heapFloor = 256 << 20

// collectSeldom has garbage collected by heapFloor until stop is called. GOGC in
// the environment switches it off; GOMEMLIMIT holds all the same.
func collectSeldom(ctx context.Context) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		percent := 0
		for {
			metrics.Read(live)
			// To set it stops the world for a moment: not for a small difference.
			if p := gcPercent(live[0].Value.Uint64()); p < percent*9/10 || p > percent*11/10 {
				percent = p
				debug.SetGCPercent(p)
			}
			select {
			case <-ctx.Done():
				debug.SetGCPercent(usualPercent)
				return
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

const usualPercent = 100

// gcPercent is by how much of what lives the heap may grow until it is heapFloor,
// or twice what lives.
func gcPercent(live uint64) int {
	const least = 4 << 20 // below, Go's collector counts as if so much lived
	live = max(live, least)
	if live >= heapFloor/2 {
		return usualPercent
	}
	return int((heapFloor - live) * 100 / live)
}
