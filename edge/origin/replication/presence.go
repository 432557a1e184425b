package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/fleet"
	"partneredge/store/central/usage"
	"partneredge/store/grant"
)

// SeenAtOnce bounds the heartbeats that one transaction writes down. Nobody waits for it.
const SeenAtOnce = 10_000

// Lookups of nodes that no refresh has told of. The NATS server of a region can make up any
// number of ids; further lookups are refused at once.
const (
	lookupsAtOnce  = 4
	lookupsWaiting = 64
)

// HeartbeatTimeout is the time without a status message after which a node counts as away.
const HeartbeatTimeout = 15 * time.Second

// Times of presence.
const (
	nodesEvery = 2 * time.Second  // how soon another origin's enrolments and revocations are known
	seenEvery  = 30 * time.Second // how often a node's last heartbeat is written down

	// Every node that does not read the short form of changes would ask for those pushed in
	// it, all at once. So they have the time to be heard after a start, and one that is not
	// heard for a while is taken for connected.
	longAtStart = 2 * HeartbeatTimeout
	longAfter   = 10 * time.Minute // the last of their status messages
)

// Presence knows the enrolled nodes and the last status of each. The database
// holds the nodes; this copy is at most nodesEvery old. The statuses are only
// here.
type Presence struct {
	cfg     Config
	limited *logging.Limiter // a database that is away fails every refresh

	lookups semaphores // under one name

	refreshing sync.Mutex // held from reading to revoking, so that an older reading is never applied later

	mu    sync.Mutex
	nodes map[string]store.Node
	beats heartbeats
	// addresses of nodes in subjects, by id, under which they spoke last.
	addresses map[string]string

	traffic *traffic

	longUntil time.Time // a node may be connected that does not read the short form of changes
}

// Report is a node and its last status.
type Report struct {
	Node store.Node
	// Connected says that the status came lately, and that the node is not revoked.
	Connected bool
	// At is when Status came, by this process's own clock; zero for a node not heard since
	// this origin started.
	At     time.Time
	Status wire.Status
}

func newPresence(ctx context.Context, cfg Config) (*Presence, error) {
	p := &Presence{
		cfg: cfg, limited: logging.New(cfg.Log), beats: newHeartbeats(), addresses: make(map[string]string), traffic: newTraffic(),
		lookups: semaphores{most: lookupsAtOnce, waiting: lookupsWaiting},
	}
	if err := p.Refresh(ctx); err != nil {
		return nil, err
	}
	p.begin()
	return p, nil
}

// ReadNodes reads all nodes, by id, without when they were seen.
func ReadNodes(ctx context.Context, db *central.DB) (map[string]store.Node, error) {
	nodes := make(map[string]store.Node)
	page := store.Page{Limit: 200}
	for {
		list, next, err := db.EnrolledNodes(ctx, page)
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

// Revoked returns the public keys of the revoked nodes and of the revoked servers of
// regions, and since when.
func Revoked(ctx context.Context, db *central.DB, nodes map[string]store.Node) (map[string]time.Time, error) {
	revoked := make(map[string]time.Time)
	for _, n := range nodes {
		if !n.RevokedAt.IsZero() && n.PublicKey != "" {
			revoked[n.PublicKey] = n.RevokedAt
		}
	}
	regions, err := db.RevokedRegionServers(ctx)
	for _, r := range regions {
		revoked[r.PublicKey], revoked[r.SystemKey] = r.RevokedAt, r.RevokedAt
	}
	return revoked, err
}

// Refresh reads all nodes again, and ends the connections of the revoked ones, and of the
// servers of regions that are.
func (p *Presence) Refresh(ctx context.Context) error {
	p.refreshing.Lock()
	defer p.refreshing.Unlock()
	nodes, err := ReadNodes(ctx, p.cfg.DB)
	if err != nil {
		return err
	}
	p.replace(nodes)
	revoked, err := Revoked(ctx, p.cfg.DB, nodes)
	if err != nil {
		return err
	}
	return p.cfg.Revoke(ctx, revoked)
}

// replace sets all nodes. It keeps a copy, since who has read nodes goes on to read them
// without the lock, while nodes are added.
func (p *Presence) replace(nodes map[string]store.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats.compare(p.nodes, nodes)
	p.nodes = maps.Clone(nodes)
}

// run refreshes the nodes until ctx ends.
func (p *Presence) run(ctx context.Context) {
	backoff.Every(ctx, nodesEvery, func() {
		if err := p.Refresh(ctx); err != nil && ctx.Err() == nil {
			p.limited.Warn("refresh", "cannot read the nodes", "err", err)
		}
	})
}

// writeAll writes heartbeats down until ctx ends. Revocations do not wait for it.
func (p *Presence) writeAll(ctx context.Context) {
	backoff.Every(ctx, nodesEvery, func() {
		for due := range slices.Chunk(p.unwritten(), SeenAtOnce) {
			for i := range due {
				due[i].At = p.Shared(due[i].At)
			}
			busy, err := p.cfg.DB.SeenNodes(ctx, due)
			if err != nil && ctx.Err() == nil {
				p.limited.Warn("seen", "cannot write down when nodes were seen", "nodes", len(due), "err", err)
			}
			if busy { // another origin may have heard them too
				p.postpone(due)
			}
		}
	})
}

// Shared returns when a time of Report.At was by the clock that all origins share.
func (p *Presence) Shared(at time.Time) time.Time { return p.cfg.DB.Now().Add(at.Sub(p.cfg.Now())) }

// unwritten returns the heartbeats that are due to be written down, by this process's own
// clock, and takes them for written.
func (p *Presence) unwritten() (due []fleet.NodeSeen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.beats.nodes {
		b := e.Value.(*heartbeat)
		if _, enrolled := p.nodes[id]; enrolled && b.at.After(b.written) && b.at.Sub(b.written) >= seenEvery {
			due = append(due, fleet.NodeSeen{ID: id, Version: b.status.Build, At: b.at, Apart: seenEvery / 2})
			b.written = b.at
		}
	}
	return due
}

// postpone makes the heartbeats of nodes due to be written again.
func (p *Presence) postpone(nodes []fleet.NodeSeen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		if e := p.beats.nodes[n.ID]; e != nil {
			e.Value.(*heartbeat).written = time.Time{}
		}
	}
}

// errNotKnown is the error of a message whose node may not exist.
var errNotKnown = errors.New("not among the nodes that were read last")

// knows reports whether a node is enrolled, without a look at the database.
func (p *Presence) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.nodes[id]
	return known
}

// admit refuses a node that is not enrolled, or is revoked. NATS lets no revoked
// node connect; this holds as well while a cluster has not been told yet. It refuses
// what names another region than the node's: the NATS server of a region may publish
// for any node that it says is of the region.
func (p *Presence) admit(ctx context.Context, id, address, region string) error {
	p.mu.Lock()
	node, known := p.nodes[id]
	p.mu.Unlock()
	if !known {
		err := p.lookups.run(ctx, "", 0, func() (err error) {
			node, err = p.cfg.DB.Node(ctx, id) // it may have been enrolled at another origin just now
			return err
		})
		if err != nil {
			return fmt.Errorf("admitting node %s: %w: %w", id, errNotKnown, err)
		}
		p.Put(node)
	}
	if !node.RevokedAt.IsZero() {
		return fmt.Errorf("admitting node %s: %w: it is revoked", id, store.ErrInvalid)
	}
	if region != "" && region != node.Region {
		return fmt.Errorf("admitting node %s: %w: it is of %s, and not of %q", id, store.ErrInvalid, node.Region, region)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses[id] = address
	return nil
}

// Address returns the address under which a node spoke last, its id before that.
func (p *Presence) Address(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.addresses[id], id)
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
		p.beats.note(id)
	}
	p.mu.Unlock()
	if !raised {
		return
	}
	if err := p.cfg.DB.RaiseWireVersion(ctx, id, version); err != nil && ctx.Err() == nil {
		p.cfg.Log.Warn("cannot write down a node's wire version", "node", id, "err", err) // the next refresh forgets it, and the next message tells it
	}
}

// vouched reports whether a node is believed without the hashes of keys: it speaks
// a version that predates them.
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
	p.beats.note(n.ID)
}

// receive takes in a status message.
func (p *Presence) receive(id string, s wire.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.beats.of(id)
	if last.at.IsZero() {
		p.countRefusals(id)
	}
	if s.Traffic != nil {
		p.traffic.add(id, p.nodes[id].Region, *s.Traffic, p.cfg.Now())
	}
	p.beats.put(heartbeat{node: id, status: s, at: p.cfg.Now(), written: last.written})
	if !s.ShortChanges {
		p.pushLong(longAfter)
	}
	for f := range p.beats.followers {
		f.heard.Send()
	}
}

// begin starts with changes pushed in long form if there is a node, since it is not known
// yet which forms the nodes read.
func (p *Presence) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if n.RevokedAt.IsZero() {
			p.pushLong(longAtStart)
			return
		}
	}
}

// pushLong makes changes be pushed in long form for a time at least. p.mu is held.
func (p *Presence) pushLong(during time.Duration) {
	if until := p.cfg.Now().Add(during); until.After(p.longUntil) {
		p.longUntil = until
	}
}

// long reports whether changes are to be pushed in long form: until nodes that do not read
// the short one are taken for gone. One that is there all the same asks for what it missed.
func (p *Presence) long() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg.Now().Before(p.longUntil)
}

// countRefusals creates the counters of a node, as 0, when its first status comes, so
// that its first refusal shows as a rise.
func (p *Presence) countRefusals(id string) {
	for _, reason := range grant.Refusals() {
		p.cfg.ObserveRefusal(id, string(reason), 0)
	}
	for _, reason := range []string{RefusedNode, RefusedReply, RefusedSize, usage.RefusedCount, usage.RefusedDay} {
		p.cfg.ObserveRefusal(id, reason, 0)
	}
}

// Report returns what is known of a node.
func (p *Presence) Report(id string) Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report(id, p.cfg.Now())
}

func (p *Presence) report(id string, now time.Time) Report {
	n, b := p.nodes[id], p.beats.of(id)
	connected := !b.at.IsZero() && n.RevokedAt.IsZero() && !b.timedOut(now)
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
