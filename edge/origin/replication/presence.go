package replication

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/fleet"
	"partneredge/store/grant"
)

// Times of presence.
const (
	nodesEvery       = 2 * time.Second  // how soon another origin's enrolments and revocations are known
	seenEvery        = 30 * time.Second // how often a node's last heartbeat is written down
	seenAtOnce       = 1000             // heartbeats in one transaction, which other writes share
	heartbeatTimeout = 15 * time.Second // without a status message a node counts as away
)

// Presence knows the enrolled nodes and the last status of each. The database
// holds the nodes; this copy is at most nodesEvery old. The statuses are only
// here.
type Presence struct {
	cfg Config

	refreshing sync.Mutex // held from reading to revoking, so that an older reading is never applied later

	mu    sync.Mutex
	nodes map[string]store.Node
	beats map[string]heartbeat

	traffic *traffic
	heard   signal
}

// heartbeat is the last status message of a node.
type heartbeat struct {
	status  wire.Status
	at      time.Time
	written time.Time // the last at that was written down
}

// Report is a node and its last status.
type Report struct {
	Node store.Node
	// Connected says that the status came lately, and that the node is not revoked.
	Connected bool
	// At is when Status came; zero for a node not heard since this origin started.
	At     time.Time
	Status wire.Status
}

func newPresence(ctx context.Context, cfg Config) (*Presence, error) {
	p := &Presence{
		cfg: cfg, beats: make(map[string]heartbeat), traffic: newTraffic(), heard: newSignal(),
	}
	return p, p.Refresh(ctx)
}

// ReadNodes reads all nodes, by id.
func ReadNodes(ctx context.Context, db *central.DB) (map[string]store.Node, error) {
	nodes := make(map[string]store.Node)
	page := store.Page{Limit: 200}
	for {
		list, next, err := db.Nodes(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("reading the nodes: %w", err)
		}
		for _, n := range list {
			nodes[n.ID] = n
		}
		if next == "" {
			return nodes, nil
		}
		page.Cursor = next
	}
}

// Revoked returns the public keys of the revoked nodes, and since when.
func Revoked(nodes map[string]store.Node) map[string]time.Time {
	revoked := make(map[string]time.Time)
	for _, n := range nodes {
		if !n.RevokedAt.IsZero() && n.PublicKey != "" {
			revoked[n.PublicKey] = n.RevokedAt
		}
	}
	return revoked
}

// Refresh reads all nodes again, and ends the connections of the revoked ones.
func (p *Presence) Refresh(ctx context.Context) error {
	p.refreshing.Lock()
	defer p.refreshing.Unlock()
	nodes, err := ReadNodes(ctx, p.cfg.DB)
	if err != nil {
		return err
	}
	revoked := Revoked(nodes)
	p.mu.Lock()
	p.nodes = nodes
	p.mu.Unlock()
	return p.cfg.Revoke(ctx, revoked)
}

// run refreshes the nodes until ctx ends.
func (p *Presence) run(ctx context.Context) {
	everyTick(ctx, func() {
		if err := p.Refresh(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("refreshing the nodes", "err", err)
		}
	})
}

// everyTick calls do each nodesEvery, until ctx ends.
func everyTick(ctx context.Context, do func()) {
	tick := time.NewTicker(nodesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// writeAll writes heartbeats down until ctx ends. Revocations do not wait for it.
func (p *Presence) writeAll(ctx context.Context) {
	everyTick(ctx, func() {
		for due := range slices.Chunk(p.unwritten(), seenAtOnce) {
			if err := p.cfg.DB.SeenNodes(ctx, due); err != nil && ctx.Err() == nil {
				p.cfg.Log.Warn("writing down when nodes were seen", "nodes", len(due), "err", err)
			}
		}
	})
}

// unwritten returns the heartbeats that are due to be written down, and takes them for
// written.
func (p *Presence) unwritten() (due []fleet.NodeSeen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, b := range p.beats {
		if _, enrolled := p.nodes[id]; enrolled && b.at.After(b.written) && b.at.Sub(b.written) >= seenEvery {
			due = append(due, fleet.NodeSeen{ID: id, Version: b.status.Build, At: b.at, Apart: seenEvery / 2})
			b.written = b.at
			p.beats[id] = b
		}
	}
	return due
}

// admit refuses a node that is not enrolled, or is revoked. NATS lets no revoked
// node connect; this holds as well while a cluster has not been told yet.
func (p *Presence) admit(ctx context.Context, id string) error {
	p.mu.Lock()
	node, known := p.nodes[id]
	p.mu.Unlock()
	if !known {
		var err error
		if node, err = p.cfg.DB.Node(ctx, id); err != nil { // enrolled at another origin just now
			return fmt.Errorf("admitting node %s: %w", id, err)
		}
		p.Put(node)
	}
	if !node.RevokedAt.IsZero() {
		return fmt.Errorf("admitting node %s: %w: it is revoked", id, store.ErrInvalid)
	}
	return nil
}

// spoke notes that a node has spoken a version of messages, for good: what it said in
// an earlier one is not believed from then on.
func (p *Presence) spoke(ctx context.Context, id string, version int) {
	version = min(version, wire.Version)
	p.mu.Lock()
	node, known := p.nodes[id]
	raised := known && node.WireVersion < version
	if raised {
		node.WireVersion = version
		p.nodes[id] = node
	}
	p.mu.Unlock()
	if !raised {
		return
	}
	if err := p.cfg.DB.RaiseWireVersion(ctx, id, version); err != nil && ctx.Err() == nil {
		p.cfg.Log.Warn("writing down a node's wire version", "node", id, "err", err) // the next refresh forgets it, and the next message tells it
	}
}

// vouched reports whether a node is believed without the hashes of keys: it speaks
// a version of before them.
func (p *Presence) vouched(id string) bool {
	if p.cfg.AllowOldNodes {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[id].WireVersion < wire.KeyHashes
}

// Vouched counts the enrolled nodes that are believed without the hashes of keys.
func (p *Presence) Vouched() (n int) {
	for id := range p.Enrolled() {
		if p.vouched(id) {
			n++
		}
	}
	return n
}

// Put adds a node, or replaces it, before the next refresh does.
func (p *Presence) Put(n store.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[n.ID] = n
}

// receive takes in a status message.
func (p *Presence) receive(id string, s wire.Status) {
	p.mu.Lock()
	if p.beats[id].at.IsZero() {
		p.countRefusals(id)
	}
	if s.Traffic != nil {
		p.traffic.add(id, p.nodes[id].Region, *s.Traffic, p.cfg.Now())
	}
	p.beats[id] = heartbeat{status: s, at: p.cfg.Now(), written: p.beats[id].written}
	p.mu.Unlock()
	p.heard.send()
}

// countRefusals has the counters of a node there from its first status on, as 0, so
// that the first refusal shows as a rise.
func (p *Presence) countRefusals(id string) {
	for _, reason := range grant.Refusals() {
		p.cfg.ObserveRefusal(id, string(reason), 0)
	}
	p.cfg.ObserveRefusal(id, RefusedNode, 0)
	p.cfg.ObserveRefusal(id, RefusedReply, 0)
}

// Heard receives a value after each status message; those that have not been
// received yet become one. It is for one receiver.
func (p *Presence) Heard() <-chan struct{} { return p.heard }

// Report returns what is known of a node.
func (p *Presence) Report(id string) Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report(id, p.cfg.Now())
}

func (p *Presence) report(id string, now time.Time) Report {
	n, b := p.nodes[id], p.beats[id]
	connected := !b.at.IsZero() && n.RevokedAt.IsZero() && now.Sub(b.at) < heartbeatTimeout
	return Report{Node: n, Connected: connected, At: b.at, Status: b.status}
}

// Enrolled returns what is known of each node that is not revoked, by id.
func (p *Presence) Enrolled() map[string]Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	reports := make(map[string]Report, len(p.nodes))
	for id, n := range p.nodes {
		if n.RevokedAt.IsZero() {
			reports[id] = p.report(id, now)
		}
	}
	return reports
}

// Connected counts the nodes that are connected.
func (p *Presence) Connected() (n int) {
	for _, r := range p.Enrolled() {
		if r.Connected {
			n++
		}
	}
	return n
}

// Traffic returns what a region has answered lately, by step, oldest first, up to
// the last step that is over.
func (p *Presence) Traffic(region string) []TrafficStep { return p.traffic.steps(region, p.cfg.Now()) }
