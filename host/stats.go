package host

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Stats are a module's numbers since it was opened.
type Stats struct {
	Calls     uint64            // answered
	Failed    map[Reason]uint64 // not answered, by reason
	Created   uint64            // sandboxes made
	Discarded uint64            // sandboxes closed after a call that failed, or changed what cannot be restored
	Restored  uint64            // bytes written to restore sandboxes to the image

	Sandboxes int // busy and idle
	Idle      int // of them wait for a call
	Waiting   int // calls that wait for a sandbox
	Image     int // bytes of the image
}

type counts struct {
	calls, created, discarded, restored atomic.Uint64

	mu     sync.Mutex
	failed map[Reason]uint64
}

func (c *counts) fail(r Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = map[Reason]uint64{}
	}
	c.failed[r]++
}

// Stats returns the module's numbers.
func (m *Module) Stats() Stats {
	c := &m.counts
	s := Stats{Calls: c.calls.Load(), Created: c.created.Load(), Discarded: c.discarded.Load(),
		Restored: c.restored.Load(), Image: m.image.size(), Failed: map[Reason]uint64{}}
	c.mu.Lock()
	maps.Copy(s.Failed, c.failed)
	c.mu.Unlock()
	p := &m.pool
	p.mu.Lock()
	s.Sandboxes, s.Idle, s.Waiting = p.count, len(p.idle), len(p.waiting)
	p.mu.Unlock()
	return s
}

// Stats returns the numbers of every open module.
func (r *Runtime) Stats() map[*Module]Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*Module]Stats, len(r.modules))
	for m := range r.modules {
		all[m] = m.Stats()
	}
	return all
}
