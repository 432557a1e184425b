package gotuning

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapFloor returns the size of the heap, in bytes, below which no garbage is
// collected, given the memory that the process may use. By itself Go collects
// whenever the heap has doubled, which is several times a second under load in a
// node that holds little. A higher floor makes requests wait more rarely, but
// longer: sweeping takes a third of two processors for as long as there is heap to
// sweep.
func heapFloor(memory uint64) uint64 { return min(memory/8, 32<<20) }

// usableMemory returns the memory of the cgroup or else of the machine, in bytes.
func usableMemory() uint64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 2 << 30 // neither can be read on this system
	}
	return n
}

// tuneGC keeps GOGC at what heapFloor asks for until stop is called. GOGC in the
// environment switches it off; GOMEMLIMIT holds all the same.
func tuneGC(ctx context.Context) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		ticker := time.Tick(tuneInterval)
		floor, percent := heapFloor(usableMemory()), 0
		for {
			metrics.Read(read)
			live, roots := read[0].Value.Uint64(), read[1].Value.Uint64()+read[2].Value.Uint64()
			// Setting it stops the world, which a small difference is not worth.
			if p := gcPercent(live, roots, floor); p < percent*9/10 || p > percent*11/10 {
				percent = p
				debug.SetGCPercent(p)
			}
			select {
			case <-ctx.Done():
				debug.SetGCPercent(defaultPercent)
				return
			case <-ticker:
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

// tuneInterval is how soon a collection that found more alive than the one before has an
// effect. Until then the heap may grow by as many times that as GOGC was set for less.
const tuneInterval = 100 * time.Millisecond

const defaultPercent = 100

// gcPercent returns the GOGC at which the heap grows to floor bytes, or as far as by
// default where that is more: by its live bytes and the roots, which are stacks and
// globals.
func gcPercent(live, roots, floor uint64) int {
	const least = 4 << 20 // Go's collector counts a smaller heap as this
	scanned := max(live+roots, least)
	if live+scanned >= floor {
		return defaultPercent
	}
	return int((floor - live) * 100 / scanned)
}
