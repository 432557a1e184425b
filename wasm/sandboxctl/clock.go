package sandboxctl

import (
	"sync"
	"time"
)

// Clock is the time until it is set; from then on it stands still but for
// Advance. The zero value is of use.
type Clock struct {
	mu      sync.Mutex
	stopped bool
	at      int64         // microseconds since the Unix epoch, when stopped
	ahead   time.Duration // of the time, when not
}

// Now is in microseconds since the Unix epoch.
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

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += d.Microseconds()
	c.ahead += d
}
