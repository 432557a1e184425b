package origin

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// Times of the fleet.
const (
	fleetRefresh = 2 * time.Second  // how soon another origin's enrolments and revocations are known
	seenEvery    = 30 * time.Second // how often a node's last sign of life is written down
	awayAfter    = 15 * time.Second // without a status message a node counts as away
)

// fleet knows the enrolled nodes: who may be answered, and how each is. SQL
// holds the truth; this holds a copy that is at most fleetRefresh old, and the
// status messages, which are nowhere else.
type fleet struct {
	db  *central.DB
	log *slog.Logger
	now func() time.Time
	// revoked is told the nodes whenever they were read.
	revoked func(context.Context, map[string]time.Time) error

	refreshing sync.Mutex // held from reading to telling, so that what was read first is told first

	mu     sync.Mutex
	nodes  map[string]store.Node
	status map[string]heard

	traffic *traffic
	spoke   func() // is called after each status message; it returns at once
}

type heard struct {
	status  wire.Status
	at      time.Time
	written time.Time // when at was last written down
}

// load reads all nodes.
func (f *fleet) load(ctx context.Context) (map[string]store.Node, error) {
	nodes := make(map[string]store.Node)
	page := store.Page{Limit: 200}
	for {
		list, next, err := f.db.Nodes(ctx, page)
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

// refresh reads all nodes again, and sees to it that the revoked ones are out.
func (f *fleet) refresh(ctx context.Context) error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	nodes, err := f.load(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.nodes = nodes
	f.mu.Unlock()
	return f.revoked(ctx, revocations(nodes))
}

// run keeps the copy fresh and writes signs of life down, until ctx ends.
func (f *fleet) run(ctx context.Context) {
	tick := time.NewTicker(fleetRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("refreshing the nodes", "err", err)
		}
		f.writeSeen(ctx)
	}
}

func (f *fleet) writeSeen(ctx context.Context) {
	due := make(map[string]heard)
	f.mu.Lock()
	for id, h := range f.status {
		if h.at.After(h.written) && h.at.Sub(h.written) >= seenEvery {
			due[id] = h
			h.written = h.at
			f.status[id] = h
		}
	}
	f.mu.Unlock()
	for id, h := range due {
		if err := f.db.SeenNode(ctx, id, h.status.Release, h.at); err != nil && ctx.Err() == nil {
			f.log.Warn("writing down that a node was seen", "node", id, "err", err)
		}
	}
}

// admit says whether a node may be answered. NATS lets no revoked node connect;
// this holds as well while a cluster has not been told yet.
func (f *fleet) admit(ctx context.Context, id string) error {
	f.mu.Lock()
	node, known := f.nodes[id]
	f.mu.Unlock()
	if !known {
		var err error
		if node, err = f.db.Node(ctx, id); err != nil { // enrolled at another origin just now
			return fmt.Errorf("admitting node %s: %w", id, err)
		}
		f.put(node)
	}
	if !node.RevokedAt.IsZero() {
		return fmt.Errorf("admitting node %s: %w: it is revoked", id, store.ErrInvalid)
	}
	return nil
}

func (f *fleet) put(n store.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[n.ID] = n
}

func (f *fleet) hear(id string, s wire.Status) {
	f.mu.Lock()
	if s.Traffic != nil {
		f.traffic.hear(id, f.nodes[id].Region, *s.Traffic, f.now())
	}
	f.status[id] = heard{status: s, at: f.now(), written: f.status[id].written}
	f.mu.Unlock()
	f.spoke()
}

// lastStatus of a node, and whether it is recent enough for the node to count
// as connected. at is zero when nothing was heard since this origin started.
func (f *fleet) lastStatus(id string) (s wire.Status, at time.Time, connected bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.status[id]
	revoked := !f.nodes[id].RevokedAt.IsZero()
	return h.status, h.at, !h.at.IsZero() && !revoked && f.now().Sub(h.at) < awayAfter
}

// connectedCount is how many nodes are connected.
func (f *fleet) connectedCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, now := 0, f.now()
	for id, h := range f.status {
		if f.nodes[id].RevokedAt.IsZero() && now.Sub(h.at) < awayAfter {
			n++
		}
	}
	return n
}
