package replication

import "partneredge/store/signal"

// Change is a node whose report is another than before.
type Change struct {
	Report
	ID       string
	Enrolled bool // else it is revoked or gone, and Report says nothing
}

// Follower follows what the nodes report, for one goroutine.
type Follower struct {
	presence *Presence
	changed  map[string]struct{} // ids of nodes, since the last Changed
	heard    signal.Signal
}

// Follow returns a Follower, to whom all nodes are changed ones at first. The caller ends
// it with Stop.
func (p *Presence) Follow() *Follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &Follower{presence: p, changed: make(map[string]struct{}), heard: signal.New()}
	p.beats.followers[f] = struct{}{}
	for id := range p.nodes {
		f.changed[id] = struct{}{}
	}
	return f
}

// Stop ends the Follower. It may be called again.
func (f *Follower) Stop() {
	f.presence.mu.Lock()
	defer f.presence.mu.Unlock()
	delete(f.presence.beats.followers, f)
}

// Heard receives a value after each status message; those that have not been
// received yet become one.
func (f *Follower) Heard() <-chan struct{} { return f.heard }

// Changed returns the nodes whose reports are other than when it was last called.
func (f *Follower) Changed() []Change {
	p := f.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	p.beats.settle(now)
	changes := make([]Change, 0, len(f.changed))
	for id := range f.changed {
		n, known := p.nodes[id]
		c := Change{ID: id, Enrolled: known && n.RevokedAt.IsZero()}
		if c.Enrolled {
			c.Report = p.report(id, now)
		}
		changes = append(changes, c)
	}
	clear(f.changed)
	return changes
}
