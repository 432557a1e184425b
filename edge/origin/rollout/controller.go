// Package rollout takes releases to the nodes, stage by stage, and back again
// when a node refuses one or its answers get worse.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// Times of rollouts.
const (
	stepEvery  = 250 * time.Millisecond
	stepPause  = 20 * time.Millisecond // between two looks, however much nodes report
	stepShare  = 10                    // a look is followed by a pause of so many times its length
	plansEvery = time.Second           // how soon another origin's decisions are known
	orderEvery = time.Second           // between two equal orders to a node
)

// Config of a Controller. Every field but ObserveLook is required.
type Config struct {
	DB    *central.DB
	Conn  *nats.Conn
	Nodes *replication.Presence
	Log   *slog.Logger
	Now   func() time.Time
	// ObserveLook is called after each look at the nodes with how long it took. nil: it
	// is not called.
	ObserveLook func(took time.Duration)
}

// Controller takes the rollout that is under way from step to step, and sends
// each node its order until the node's status says that it obeys. Every origin
// process runs one: a step is taken by the first to write it down, and an order
// that comes twice does no harm.
type Controller struct {
	config  Config
	limited *logging.Limiter // a database that is away fails every step
	wake    signal.Signal    // a rollout was written by this process
	stale   atomic.Bool      // likewise

	// Of run alone:
	nodes  *replication.Follower
	fleet  *fleet
	began  time.Time // since when nodes can have been heard
	losses losses
	pause  pause
	read   time.Time
	as     revision        // what the fleet's plans were read at
	orders map[string]sent // the last one to each node

	unsubscribe func() // from the database's commits
	cancel      context.CancelFunc
	loop        sync.WaitGroup
}

// revision names a state of all rollouts. Its zero value is that of none read.
type revision struct {
	rollout string
	number  int64
	read    bool
}

type sent struct {
	order wire.Order
	at    time.Time
}

// Start a Controller. The caller ends it with Stop.
func Start(cfg Config) *Controller {
	c := &Controller{
		config: cfg, limited: logging.New(cfg.Log), began: cfg.Now(), wake: signal.New(),
		nodes: cfg.Nodes.Follow(), fleet: newFleet(), orders: make(map[string]sent),
	}
	c.unsubscribe = cfg.DB.OnCommit(func(commit central.Commit) {
		if !commit.Rollouts {
			return
		}
		c.stale.Store(true)
		c.wake.Send()
	})
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.loop.Go(func() { c.run(running) })
	return c
}

// Stop ends the Controller, and waits until it has ended. It may be called again.
func (c *Controller) Stop() {
	c.unsubscribe()
	c.cancel()
	c.loop.Wait()
	c.nodes.Stop()
}

// run goes on until ctx ends.
func (c *Controller) run(ctx context.Context) {
	tick := time.Tick(stepEvery)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		began := time.Now()
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.limited.Warn("step", "rollouts", "err", err)
		}
		took := time.Since(began)
		if c.config.ObserveLook != nil {
			c.config.ObserveLook(took)
		}
		pause.Reset(min(max(stepPause, stepShare*took), stepEvery))
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-c.nodes.Heard():
		case <-tick:
		}
	}
}

// step reads what is decided, takes the next step, and sends orders.
func (c *Controller) step(ctx context.Context) error {
	if !c.config.Conn.IsConnected() {
		// It hears no node, which says nothing of the nodes. Once it is connected again it
		// judges their silence as an origin that has just started.
		c.began, c.losses = c.config.Now(), losses{}
		return nil
	}
	for _, change := range c.nodes.Changed() {
		c.fleet.hear(change)
	}
	// What is under way is read each time: others may have taken a step.
	if c.stale.Swap(false) || c.fleet.active != nil || time.Since(c.read) >= plansEvery {
		if err := c.readPlans(ctx); err != nil {
			return err
		}
	}
	if f := c.fleet; f.active != nil {
		l := look{reports: f.reports, tally: f.tally, now: c.config.Now(), shared: c.config.DB.Now(), began: c.began}
		l.watched = c.pause.see(f.active, l.now)
		var err error
		if l.spoke, err = c.spoke(ctx, f); err != nil {
			return err
		}
		if f.active.State == store.RollingOut {
			l.why = cmp.Or(f.watch.judge(), c.losses.judge(f.active, l))
		}
		next := *f.active
		if advance(&next, l) {
			if err := c.write(ctx, next); err != nil {
				return err
			}
			if f.active != nil {
				c.pause.see(f.active, l.now)
			}
		}
	}
	c.sendOrders()
	return nil
}

// spoke reads when the nodes of the rollout that are not heard here spoke to any origin.
func (c *Controller) spoke(ctx context.Context, f *fleet) (map[string]time.Time, error) {
	if c.config.DB.Kind() == "sqlite" {
		return nil, nil // there is no other origin process
	}
	var silent []string
	for _, places := range []map[int]struct{}{f.tally.lost, f.tally.away} {
		for i := range places {
			if id := f.active.Nodes[i].ID; !f.reports[id].Connected {
				silent = append(silent, id)
			}
		}
	}
	if len(silent) == 0 {
		return nil, nil
	}
	return c.config.DB.LastSeen(ctx, silent)
}

// readPlans reads what the nodes are to run, unless it is what was read last: of
// many nodes that is much.
func (c *Controller) readPlans(ctx context.Context) error {
	id, number, err := c.config.DB.LastRevision(ctx)
	if err != nil {
		return err
	}
	as := revision{id, number, true}
	if as == c.as {
		c.read = time.Now()
		return nil
	}
	last, err := c.config.DB.LastRollout(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var active *store.Rollout
	if err == nil && last.State.Active() {
		active = &last
	}
	rolledBack := ""
	if last.State.Back() {
		rolledBack = last.Digest
	}
	wants, err := c.config.DB.NodeReleases(ctx)
	if err != nil {
		return err
	}
	c.fleet.plan(active, wants, rolledBack)
	c.as = revision{}
	if last.ID == as.rollout && last.Revision == as.number { // else a step came in between
		c.as = as
	}
	c.read = time.Now()
	return nil
}

// write writes a step down.
func (c *Controller) write(ctx context.Context, next store.Rollout) error {
	was := *c.fleet.active
	next, stepped, err := c.config.DB.StepRollout(ctx, next)
	if err != nil {
		return err
	}
	if stepped && (next.State != was.State || next.Stage != was.Stage || next.Trying != was.Trying) {
		c.config.Log.Info("rollout", "id", next.ID, "version", next.Version, "state", next.State,
			"nodes", next.Reached(next.Stage), "of", len(next.Nodes), "trying", next.Trying, "why", next.Reason)
	}
	return c.readPlans(ctx)
}

// sendOrders sends an order to every connected node that does not yet obey it.
func (c *Controller) sendOrders() {
	for id := range c.fleet.disobedient {
		order, _ := c.fleet.orderOf(id)
		last := c.orders[id]
		if last.order == order && time.Since(last.at) < orderEvery {
			continue
		}
		c.orders[id] = sent{order, time.Now()}
		if err := c.send(id, order); err != nil {
			c.config.Log.Warn("cannot tell a node what to run", "node", id, "err", err)
		}
	}
}

func (c *Controller) send(node string, o wire.Order) error {
	body, err := wire.Encode(&o)
	if err != nil {
		return fmt.Errorf("send order: %w", err)
	}
	return c.config.Conn.Publish(wire.ToNode+c.config.Nodes.Address(node)+"."+wire.VerbRelease, body)
}
