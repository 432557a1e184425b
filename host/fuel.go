package host

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"partneredge/host/engine"
	"partneredge/host/threadtime"
)

// Fuel. A guest's machine code cannot be interrupted: while it runs, its thread
// does not stop for Go's garbage collector, and no deadline ends it. So it spends
// fuel (package prepare), and calls refuel when there is none left. How much it then
// gets is adapted to how long the last amount took, for an instruction may take a
// fraction of a nanosecond, or a hundred when it waits for memory, or a thousand when
// it is the first to touch a page. What it gets at most lasts for some milliseconds
// of such accesses, whatever the last amount took.
const (
	maxFuel      = 40_000 // also what a call begins with
	minFuel      = 1_000
	fuelInterval = 20 * time.Microsecond // how long fuel should last; the collector waits for so long
	// A guest with more memory than this many bytes gets a quarter of maxFuel at
	// most: it has more pages to touch, and its memory is in no cache.
	largeMemory = 8 << 20
	// After so much computing a guest yields to other goroutines: where every
	// processor has a call, and where one is free, which yielding would wake for
	// nothing.
	yieldCrowded = 200 * time.Microsecond
	yieldAlone   = 2 * time.Millisecond
	// A stretch of computing between two checks that is longer than longStretch, many
	// times what the fuel should last, may not have been the guest's doing: its thread
	// had to wait for a processor. On a busy machine that takes milliseconds again and
	// again, and would end calls that hardly ran. So from a call's first long stretch
	// on its thread's processor time is charged for such a one, unless that is unknown.
	// More than maxStretch, far more than the fuel lasts, is never charged: others may
	// have computed on the thread.
	longStretch = 500 * time.Microsecond
	maxStretch  = 5 * time.Millisecond
)

// refuel gives the guest more fuel, or ends its call if a deadline has passed. It
// yields to other goroutines if the guest has computed for long.
func refuel(ctx context.Context, _ []byte, stack []uint64) {
	c := ctx.(*call)
	c.checkStack()
	now := c.check()
	computed := now - c.inHost
	c.fuel = min(nextFuel(c.fuel, computed-c.refueled), c.mostFuel())
	if c.m.runtime.yielder.due(computed - c.yielded) {
		c.Uncharged(runtime.Gosched)
		c.yielded = computed
	} else {
		c.mark()
	}
	c.refueled = computed
	stack[0] = uint64(uint32(c.fuel))
}

// mark remembers what the thread has computed when the guest goes on, for a call that had to
// wait. A call that did not is spared the look.
func (c *call) mark() {
	if c.waited {
		c.used = threadtime.Now()
	}
}

// mostFuel returns how much fuel the guest may get at once.
func (c *call) mostFuel() int32 {
	if c.memory.Len() > largeMemory {
		return maxFuel / 4
	}
	return maxFuel
}

// nextFuel returns the fuel that should last fuelInterval, when last lasted took.
func nextFuel(last int32, took time.Duration) int32 {
	next := int64(last) * int64(fuelInterval) / int64(max(took, time.Microsecond))
	return int32(max(minFuel, min(next, 4*int64(last), maxFuel)))
}

// charge charges the call for computing since it was last charged, and returns the
// time.
func (c *call) charge() (now time.Duration) {
	now = c.m.runtime.elapsed()
	stretch := now - c.inHost - c.checked
	c.checked = now - c.inHost
	if stretch > longStretch {
		stretch = c.computing(stretch)
	}
	c.computed += stretch
	return now
}

// computing returns how much of a long stretch the guest computed.
func (c *call) computing(stretch time.Duration) time.Duration {
	c.waited = true
	stretch = min(stretch, maxStretch)
	if used, ok := threadtime.Since(c.used); ok {
		return min(stretch, used)
	}
	return stretch
}

// overdue returns the reason why the call must end at the time now, "" if it may go
// on.
func (c *call) overdue(now time.Duration) Reason {
	switch {
	case c.parent.Err() != nil:
		return c.ended(c.parent.Err())
	case now > c.wall:
		return c.ended(context.DeadlineExceeded)
	case c.computed > c.m.limits.CPU && c.m.limits.CPU >= 0 && c.warmUp == nil:
		return CPUDeadline
	}
	return ""
}

// check ends the call if it must end, and returns the time.
func (c *call) check() (now time.Duration) {
	now = c.charge()
	if reason := c.overdue(now); reason != "" {
		c.stop(reason, nil)
	}
	return now
}

// TimeLeft implements engine.CallContext. Between two questions the guest computed,
// or waited for a processor, which is not charged.
func (c *call) TimeLeft() time.Duration {
	now := c.charge()
	if c.overdue(now) != "" {
		return 0
	}
	left := time.Duration(math.MaxInt64)
	if c.m.limits.CPU >= 0 && c.warmUp == nil {
		left = c.m.limits.CPU - c.computed
	}
	return min(left, c.wall-now)
}

// yielder decides when calls yield to other goroutines. Where more calls are under
// way than there are processors, one that ends lets those run first that are ready:
// so requests go through each step, such as this module, the next, and the answer's
// way to the network, one after another, and most find its code and data in the
// processor's cache. Where a processor is free a request goes on at once, for waking
// that one costs more than this saves.
type yielder struct {
	processors int64
	underWay   atomic.Int64
	crowded    atomic.Int64 // for how many more calls to yield
}

// crowdedCalls is how many calls yield after more were under way than there are
// processors: most calls run from beginning to end at one go and never see others.
const crowdedCalls = 64

func (y *yielder) begin() { y.underWay.Add(1) }

func (y *yielder) end() {
	if y.underWay.Load() > y.processors {
		y.crowded.Store(crowdedCalls)
	}
	if y.crowded.Load() > 0 {
		y.crowded.Add(-1)
		runtime.Gosched()
	}
	y.underWay.Add(-1)
}

// due reports whether a call should yield that has computed for so long.
func (y *yielder) due(computed time.Duration) bool {
	return computed >= yieldAlone || computed >= yieldCrowded && y.underWay.Load() >= y.processors
}

// interrupted returns the error of a call that its engine interrupted, nil when err
// is another error.
func (c *call) interrupted(err error) *Error {
	if !errors.Is(err, engine.ErrInterrupted) {
		return nil
	}
	reason := c.overdue(c.m.runtime.elapsed())
	if reason == "" {
		reason = CPUDeadline
	}
	return c.m.fault(reason, nil)
}
