package fake

import (
	"sync"
	"time"
)

// Clock is a clock that can be stopped and moved. The zero value shows the real
// time until Set or Advance is called.
type Clock struct {
	mu      sync.Mutex
	stopped bool
	at      int64         // microseconds since the Unix epoch, if stopped
	ahead   time.Duration // of the real time, if not stopped
}

// NewClock returns a clock that is stopped at 2025-06-15T15:06:40Z.
func NewClock() *Clock { return &Clock{stopped: true, at: 1_750_000_000_000_000} }

// Now returns the time in microseconds since the Unix epoch.
func (c *Clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return c.at
	}
	return time.Now().Add(c.ahead).UnixMicro()
}

// Set stops the clock at t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped, c.at = true, t.UnixMicro()
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += d.Microseconds()
	c.ahead += d
}
