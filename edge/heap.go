package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapFloor is how big a node's heap becomes before garbage is collected, in
// bytes, of the memory that the process may use. Go starts whenever the heap has
// doubled: a node that holds little would collect several times a second under
// load. With more than this, requests wait seldom, but longer: sweeping the heap
// takes a third of two processors for as long as there is heap to sweep.
func heapFloor(memory uint64) uint64 { return min(memory/8, 128<<20) }

// usableMemory is what a cgroup or else the machine has, in bytes.
func usableMemory() uint64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 2 << 30 // not to be told here
	}
	return n
}

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
		floor, percent := heapFloor(usableMemory()), 0
		for {
			metrics.Read(live)
			// To set it stops the world for a moment: not for a small difference.
			if p := gcPercent(live[0].Value.Uint64(), floor); p < percent*9/10 || p > percent*11/10 {
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

// gcPercent is by how much of what lives the heap may grow until it is floor, or
// twice what lives.
func gcPercent(live, floor uint64) int {
	const least = 4 << 20 // below, Go's collector counts as if so much lived
	live = max(live, least)
	if live >= floor/2 {
		return usualPercent
	}
	return int((floor - live) * 100 / live)
}
