package host

import (
	"context"
	"runtime"
	"time"
)

// Fuel. A guest's machine code cannot be interrupted: while it runs, its thread
// does not stop for Go's garbage collector, and no deadline ends it. So it
// spends fuel (package prepare), and calls tick when there is none left. What
// it gets then is adapted to how long the last lot took, for an instruction may
// take a fraction of a nanosecond, or a hundred when it waits for memory.
const (
	firstFuel  = 100_000
	minFuel    = 1_000
	maxFuel    = 2_000_000
	tickTarget = 20 * time.Microsecond // the collector's stop waits this long
	// After so much computing other goroutines run: where every processor has a
	// call, and where one is free, which yielding would wake for nothing.
	yieldAfter = 200 * time.Microsecond
	yieldAlone = 2 * time.Millisecond
	// maxStretch is the most that is charged for computing between two checks,
	// far more than the fuel for it lasts: a longer stretch was not the guest's
	// doing, its thread had to wait for a processor. On a busy machine that
	// takes tens of milliseconds, and would end calls that hardly ran.
	maxStretch = 5 * time.Millisecond
)

// edgeTick ends the call if a deadline has passed. Else it gives more fuel,
// and lets other goroutines run if the guest has been at it for long.
func edgeTick(ctx context.Context, _ []byte, stack []uint64) {
	c := ctx.(*call)
	now := c.check()
	computed := now - c.inHost
	c.fuel = nextFuel(c.fuel, computed-c.ticked)
	if c.m.runtime.turns.yield(computed - c.yielded) {
		runtime.Gosched()
		c.inHost += c.m.runtime.elapsed() - now // the others' time
		c.yielded = computed
	}
	c.ticked = computed
	stack[0] = uint64(uint32(c.fuel))
}

// nextFuel is the fuel that should last tickTarget, after a lot that lasted took.
func nextFuel(last int32, took time.Duration) int32 {
	next := int64(last) * int64(tickTarget) / int64(max(took, time.Microsecond))
	return int32(max(minFuel, min(next, 4*int64(last), maxFuel)))
}
