package gotuning

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		live, roots uint64
		want        int
	}{
		{0, 0, 6400},
		{4 * mib, 0, 6300},
		{2 * mib, 2 * mib, 6350},
		{32 * mib, 0, 700},
		{32 * mib, 32 * mib, 350},
		{64 * mib, 0, 300},
		{127 * mib, 0, 101},
		{120 * mib, 16 * mib, 100},
		{128 * mib, 0, 100},
		{200 * mib, 0, 100},
		{300 * mib, 0, 100},
	} {
		if got := gcPercent(tt.live, tt.roots, 256*mib); got != tt.want {
			t.Errorf("%d MiB live, %d MiB of roots: %d %%, want %d", tt.live/mib, tt.roots/mib, got, tt.want)
		}
	}
}

func TestHeapFloor(t *testing.T) {
	const mib = 1 << 20
	for memory, want := range map[uint64]uint64{
		128 * mib:     16 * mib,
		256 * mib:     32 * mib,
		8192 * mib:    32 * mib,
		1 << 20 * mib: 32 * mib,
	} {
		if got := heapFloor(memory); got != want {
			t.Errorf("%d MiB to use: %d MiB, want %d", memory/mib, got/mib, want/mib)
		}
	}
	if got := usableMemory(); got < 64*mib {
		t.Errorf("this machine has %d bytes", got)
	}
}

// TestTunedHeap holds that the heap of a process with deep stacks is collected at the
// floor: Go counts stacks to what GOGC is a percentage of.
func TestTunedHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	const stacks = 200
	var ready, ended sync.WaitGroup
	end := make(chan struct{})
	for range stacks {
		ready.Add(1)
		ended.Go(func() { deep(64, func() { ready.Done(); <-end }) })
	}
	defer ended.Wait()
	defer close(end)
	ready.Wait()
	stop := tuneGC(t.Context())
	defer stop()
	runtime.GC() // counts the stacks
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	floor := heapFloor(usableMemory())
	for until := time.Now().Add(time.Minute); ; runtime.Gosched() {
		metrics.Read(goal)
		if got := goal[0].Value.Uint64(); got > floor*8/10 && got < floor*12/10 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d bytes of stacks: the heap is collected from %d bytes on, want %d", goal[1].Value.Uint64(), goal[0].Value.Uint64(), floor)
		}
	}
	if got := goal[1].Value.Uint64(); got < 4<<20 {
		t.Fatalf("only %d bytes of stacks", got)
	}
}

// deep calls f on a stack of so many KiB.
func deep(kib int, f func()) byte {
	var frame [1 << 10]byte
	if kib == 0 {
		f()
	} else {
		frame[kib] = deep(kib-1, f)
	}
	return frame[kib]
}
