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

// add adds other's numbers to those of s.
func (s *Stats) add(other Stats) {
	s.Calls += other.Calls
	s.Created += other.Created
	s.Discarded += other.Discarded
	s.Restored += other.Restored
	s.Sandboxes += other.Sandboxes
	s.Idle += other.Idle
	s.Waiting += other.Waiting
	s.Image += other.Image
	if s.Failed == nil {
		s.Failed = map[Reason]uint64{}
	}
	for reason, n := range other.Failed {
		s.Failed[reason] += n
	}
}

// ModuleID names the file that modules were opened from.
type ModuleID struct{ Name, Digest string }

func (m *Module) id() ModuleID { return ModuleID{m.manifest.Name, m.digest} }

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

// Totals returns the sums of the numbers of the open modules of each id. What has been counted
// since one of an id was opened includes those that were closed meanwhile, so that it does not
// fall when one of several is closed; a call that ends just as its module is closed may be
// missing. With the last of them, the id goes.
func (r *Runtime) Totals() map[ModuleID]Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[ModuleID]Stats, len(r.modules))
	for m := range r.modules {
		id := m.id()
		sum, known := all[id]
		if !known {
			sum.add(r.closedCounts[id])
		}
		sum.add(m.Stats())
		all[id] = sum
	}
	return all
}

// remove takes a module whose calls have ended from the open ones, and keeps what it has
// counted for as long as others of its id are open.
func (r *Runtime) remove(m *Module) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.modules[m]; !open {
		return
	}
	delete(r.modules, m)
	id := m.id()
	for other := range r.modules {
		if other.id() != id {
			continue
		}
		var sum Stats
		sum.add(r.closedCounts[id])
		sum.add(m.Stats())
		sum.Image = 0
		r.closedCounts[id] = sum
		return
	}
	delete(r.closedCounts, id)
}
