package host

import (
	"errors"
	"math"
	"time"

	"partneredge/host/engine"
)

// Left implements engine.Meter, for engines that interrupt guests by
// themselves. Between two questions the guest computed, or waited for a
// processor, which is not charged.
func (c *call) Left() time.Duration {
	now := c.m.runtime.elapsed()
	c.computed += min(now-c.inHost-c.checked, maxStretch)
	c.checked = now - c.inHost
	if c.parent.Err() != nil {
		return 0
	}
	left := time.Duration(math.MaxInt64)
	if c.m.limits.CPU >= 0 && c.warm == nil {
		left = c.m.limits.CPU - c.computed
	}
	return min(left, c.wall-now)
}

// interrupted is the error of a call that its engine interrupted, nil when err
// says something else.
func (c *call) interrupted(err error) *Error {
	if !errors.Is(err, engine.ErrInterrupted) {
		return nil
	}
	switch {
	case c.parent != nil && c.parent.Err() != nil:
		return c.m.fault(contextReason(c.parent.Err()), nil)
	case c.m.runtime.elapsed() >= c.wall:
		return c.m.fault(WallDeadline, nil)
	}
	return c.m.fault(CPUDeadline, nil)
}
