package host

import (
	"sync"
	"sync/atomic"
)

// ceiling is the memory that all sandboxes of a runtime share. No module can take all of it: each
// has the memory of one sandbox for itself, and while others are open half of the ceiling at most.
type ceiling struct {
	size int // bytes; never changes

	mu      sync.Mutex
	left    int
	pinned  int                // reserved for the first sandboxes of modules
	modules int                // open ones
	waiting map[*pool]struct{} // pools that were refused memory
	waits   atomic.Bool        // there are some
}

// countModules counts n modules more as open.
func (c *ceiling) countModules(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modules += n
}

// pin allows a module to keep n bytes reserved until unpin, also while it has no sandbox. It is
// false where more than half of the ceiling would be pinned: where images are large or many,
// modules compete for the rest, and none is left without any for ever.
func (c *ceiling) pin(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinned+n > c.size/2 {
		return false
	}
	c.pinned += n
	return true
}

// unpin undoes the pin of n bytes.
func (c *ceiling) unpin(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinned -= n
}

// allows reports whether a module that has memory may have n bytes more, if there are so many.
func (c *ceiling) allows(p *pool, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares(p, n)
}

// shares reports whether n bytes more are within a pool's share. The first sandbox always is. c.mu
// is held.
func (c *ceiling) shares(p *pool, n int) bool {
	return p.held == 0 || c.modules < 2 || p.held+n <= c.size/2
}

// reserve reserves n bytes for a pool, if there are so many and they are within its share. If
// waits is set, a pool that is refused for want of memory is woken as soon as there is more, or
// an idle sandbox that can give way.
func (c *ceiling) reserve(p *pool, n int, waits bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shares(p, n) {
		return false
	}
	if n <= c.left {
		c.left -= n
		p.held += n
		return true
	}
	if waits {
		if c.waiting == nil {
			c.waiting = map[*pool]struct{}{}
		}
		c.waiting[p] = struct{}{}
		c.waits.Store(true)
	}
	return false
}

// unreserve undoes the reserve of n bytes.
func (c *ceiling) unreserve(p *pool, n int) {
	c.mu.Lock()
	c.left += n
	p.held -= n
	c.mu.Unlock()
	c.wake()
}

// wake wakes the pools that were refused memory. Those that are refused once more are woken
// again the next time.
func (c *ceiling) wake() {
	if !c.waits.Load() {
		return
	}
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.waits.Store(false)
	c.mu.Unlock()
	for p := range waiting {
		p.wake()
	}
}

// free returns how many bytes may still be reserved.
func (c *ceiling) free() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}
