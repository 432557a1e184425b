package origin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// Times of rollouts.
const (
	rolloutTick  = 250 * time.Millisecond
	rolloutLeast = 20 * time.Millisecond // between two looks, however much nodes say
	plansAgain   = time.Second           // how soon another origin's decisions are known
	ordersAgain  = time.Second           // between two orders that say the same
)

// rollouts takes the rollout that is under way from step to step, and tells each
// node what it is to run until its status says that it does. Every origin process
// runs one: a step is taken by who is first to write it down, and an order that
// comes twice does no harm.
type rollouts struct {
	db    *central.DB
	conn  *nats.Conn
	fleet *fleet
	log   *slog.Logger
	now   func() time.Time
	wake  chan struct{} // holds one: something was said, or decided
	stale atomic.Bool   // something was decided here

	// Of run alone:
	watch  watch
	active *store.Rollout // nil: none
	wants  map[string]string
	read   time.Time
	orders map[string]sent // the last one to each node
}

type sent struct {
	order wire.Order
	at    time.Time
}

func newRollouts(db *central.DB, conn *nats.Conn, f *fleet, c Config) *rollouts {
	return &rollouts{db: db, conn: conn, fleet: f, log: c.Log, now: c.Now, wake: make(chan struct{}, 1), orders: make(map[string]sent)}
}

// decided has the controller read at once what is to be done. It never blocks.
func (c *rollouts) decided() {
	c.stale.Store(true)
	c.heard()
}

// heard has it look at once at what the nodes say. It never blocks.
func (c *rollouts) heard() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run goes on until ctx ends.
func (c *rollouts) run(ctx context.Context) {
	tick := time.NewTicker(rolloutTick)
	defer tick.Stop()
	least := time.NewTimer(0)
	defer least.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-least.C:
		}
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("rollouts", "err", err)
		}
		least.Reset(rolloutLeast)
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-tick.C:
		}
	}
}

// look reads what is decided, takes the next step, and tells the nodes.
func (c *rollouts) look(ctx context.Context) error {
	// What is under way is read each time: others may have taken a step.
	if c.stale.Swap(false) || c.active != nil || time.Since(c.read) >= plansAgain {
		if err := c.plans(ctx); err != nil {
			return err
		}
	}
	reports := c.fleet.reports()
	if c.active != nil {
		why := ""
		if c.active.State == store.RollingOut {
			why = c.watch.judge(c.active, c.fleet.region, reports)
		}
		next := *c.active
		if advance(&next, why, reports, c.now()) {
			if err := c.take(ctx, next); err != nil {
				return err
			}
		}
	}
	c.tell(reports)
	return nil
}

// plans reads what the nodes are to run.
func (c *rollouts) plans(ctx context.Context) error {
	last, err := c.db.LastRollout(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.active = nil
	case err != nil:
		return err
	case last.State.Active():
		c.active = &last
	default:
		c.active = nil
	}
	if c.wants, err = c.db.NodeReleases(ctx); err != nil {
		return err
	}
	c.read = time.Now()
	return nil
}

// take writes a step down.
func (c *rollouts) take(ctx context.Context, next store.Rollout) error {
	was := *c.active
	next, stepped, err := c.db.StepRollout(ctx, next)
	if err != nil {
		return err
	}
	if stepped && (next.State != was.State || next.Stage != was.Stage || next.Trying != was.Trying) {
		c.log.Info("rollout", "id", next.ID, "version", next.Version, "state", next.State,
			"nodes", next.Reached(next.Stage), "of", len(next.Nodes), "trying", next.Trying, "why", next.Reason)
	}
	return c.plans(ctx)
}

// tell sends an order to every node that does not do yet what it should.
func (c *rollouts) tell(reports map[string]report) {
	for id, at := range reports {
		if !at.connected {
			continue
		}
		order, told := orderOf(id, c.active, c.wants)
		if !told || obeys(at.status, order) {
			continue
		}
		last := c.orders[id]
		if last.order == order && time.Since(last.at) < ordersAgain {
			continue
		}
		c.orders[id] = sent{order, time.Now()}
		if err := c.send(id, order); err != nil {
			c.log.Warn("telling a node what to run", "node", id, "err", err)
		}
	}
}

func (c *rollouts) send(node string, o wire.Order) error {
	o.Head = spoken
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("send order: %w", err)
	}
	return c.conn.Publish(wire.ToNode+node+"."+wire.VerbRelease, body)
}

// reports is what is known of every enrolled node. One that is too old to say
// what it runs counts as away: it can be told nothing of releases.
func (f *fleet) reports() map[string]report {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	reports := make(map[string]report, len(f.nodes))
	for id, n := range f.nodes {
		if n.RevokedAt.IsZero() {
			h := f.status[id]
			reports[id] = report{connected: !h.at.IsZero() && now.Sub(h.at) < awayAfter && h.status.Running != nil, status: h.status}
		}
	}
	return reports
}

// region of a node, "" when it is not known.
func (f *fleet) region(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[id].Region
}
