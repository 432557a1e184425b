// Package node is a regional node: it serves the partner API by modules in
// sandboxes, from records on its own disk, and follows the origin.
//
// A request is answered without the origin whenever the node holds what it
// needs: key records and views of accounts are copies, kept in step by changes
// that the origin pushes. Leads are on the node's disk when they are answered
// and handed over afterwards. While the origin is away, the node serves what it
// holds.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/local"
)

// Node is a node that runs.
type Node struct {
	config      Config
	metrics     *metrics
	store       *local.Store
	link        *link.Link
	replication *replication.Replication
	runtime     *host.Runtime
	slots       *slots
	release     *releases
	news        chan struct{} // holds one: the origin is to be told how the node is, now

	front, operators *listener
	ready            atomic.Bool

	life    context.Context    // of the loops
	cancel  context.CancelFunc // ends it
	running sync.WaitGroup

	once sync.Once
	err  error // of stopping
}

// ErrNoOrigin ends the start of a node that holds no records.
var ErrNoOrigin = errors.New("origin is not reached")

// statusEvery is how often a node tells the origin how it is.
const statusEvery = 2 * time.Second

// Start returns once the node is ready to serve: its modules are compiled, its
// state is open, and it has caught up with the origin, or holds records from
// before and cannot reach it. ctx bounds starting, not running.
func Start(ctx context.Context, c Config) (*Node, error) {
	c, err := c.filled()
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n := &Node{config: c, metrics: newMetrics(c), news: make(chan struct{}, 1)}
	if err := n.start(ctx); err != nil {
		_ = n.Stop(context.Background())
		return nil, fmt.Errorf("start node: %w", err)
	}
	return n, nil
}

// URL is the base address of the partner API, such as "http://127.0.0.1:8080".
func (n *Node) URL() string { return n.front.url }

// MetricsURL is the base address of /metrics, /healthz and /readyz.
func (n *Node) MetricsURL() string { return n.operators.url }

// ID is the node's id, from its credentials.
func (n *Node) ID() string { return n.link.ID() }

func (n *Node) start(ctx context.Context) (err error) {
	c := n.config
	tlsConfig, err := c.tls()
	if err != nil {
		return err
	}
	if n.operators, err = listen(c.Metrics, nil, n.metrics.operators(n.obstacle), c); err != nil {
		return err
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	if n.front, err = listen(c.Listen, tlsConfig, partnerAPI(c, n.slots), c); err != nil {
		return err
	}
	n.ready.Store(true)
	c.Log.Info("node is ready", "node", n.link.ID(), "region", c.Region, "url", n.front.url, "leads_waiting", n.store.Outbox.Len())
	return nil
}

// open brings up all of the node but its listeners.
func (n *Node) open(ctx context.Context) (err error) {
	c := n.config
	n.store, err = local.Open(local.Config{
		Dir: filepath.Join(c.Data, "state"), KeyBytes: c.KeyBytes, ViewBytes: c.ViewBytes,
		Lockout: c.Lockout, Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return err
	}
	if err := n.join(); err != nil {
		return err
	}
	if err := n.openReleases(ctx); err != nil {
		return err
	}
	n.running.Go(func() { n.release.run(n.life) })
	n.running.Go(func() { n.tellStatus(n.life) })
	return n.awaitOrigin(ctx)
}

// join connects to the origin and starts what runs beside the requests.
func (n *Node) join() (err error) {
	c := n.config
	n.link, err = link.New(link.Config{
		URL: c.Origin, Credentials: c.Credentials, CA: c.OriginCA, Dialer: c.dialer,
		Observe: n.metrics.originAnswered, Tracer: c.Tracer, Log: c.Log,
	})
	if err != nil {
		return err
	}
	n.replication, err = replication.New(replication.Config{
		Store: n.store, Link: n.link, ReadTimeout: c.ReadOrigin, WriteTimeout: c.WriteOrigin, MaxStale: c.MaxStale,
		NoteAge: noteAge, Counters: n.metrics.replication(), Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return err
	}
	if err := n.replication.Start(); err != nil {
		return err
	}
	n.metrics.watch(n.store, n.link.Up, c.Now)
	n.life, n.cancel = context.WithCancel(context.Background())
	return nil
}

// openReleases brings up what the node ran before, or the modules of its own
// disk, and begins to hear of others.
func (n *Node) openReleases(ctx context.Context) error {
	c := n.config
	if err := os.MkdirAll(c.Cache, 0o700); err != nil {
		return fmt.Errorf("make compile cache: %w", err)
	}
	var err error
	if n.runtime, err = host.New(ctx, host.Config{CacheDir: c.Cache, Log: c.Log, Clock: c.Now, CheckDial: c.CheckDial}); err != nil {
		return err
	}
	n.metrics.registry.MustRegister(newModuleMetrics(n.runtime))
	shop := &workshop{
		config: c, runtime: n.runtime, observe: n.metrics.answered, turns: turns{filepath.Join(c.Cache, "compiled")},
		caps: n.replication.Capabilities(),
	}
	store, err := newReleaseStore(c, n.link)
	if err != nil {
		return err
	}
	first, err := store.first(ctx, shop)
	if err != nil {
		return err
	}
	n.slots = newSlots(first)
	n.release = newReleases(n.slots, shop, store, c, n.tell)
	orders := make(chan *nats.Msg, 16)
	if err := n.link.Subscribe(wire.VerbRelease, orders); err != nil {
		return err
	}
	n.running.Go(func() {
		for {
			select {
			case <-n.life.Done():
				return
			case m := <-orders:
				var o wire.Order
				if n.link.Decode(wire.VerbRelease, m.Data, &o) {
					n.release.hear(o)
				}
			}
		}
	})
	return nil
}

// tell has the origin told how the node is, now.
func (n *Node) tell() {
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// awaitOrigin returns when the node has every change, or can do without.
func (n *Node) awaitOrigin(ctx context.Context) error {
	holds := n.store.Keys.Len() > 0
	patience := n.config.StartTimeout
	if holds {
		patience = min(patience, 2*time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var why error
	select {
	case <-n.replication.Current():
		return nil
	case why = <-n.link.Unusable():
	case <-ctx.Done():
		if why = n.link.LastFailure(); why == nil {
			why = ctx.Err()
		}
	}
	if !holds {
		return fmt.Errorf("%w: %w", ErrNoOrigin, why)
	}
	n.config.Log.Warn("origin is away: serving what is held", "keys", n.store.Keys.Len(), "last_heard", n.store.Cursor().Heard)
	return nil
}

// obstacle is why the node is not ready to serve, "" when it is.
func (n *Node) obstacle() string {
	switch {
	case !n.ready.Load():
		return "starting or stopping"
	case n.replication.Stale():
		return "origin not heard for " + n.config.MaxStale.String() + ", so no record is trusted"
	}
	return ""
}

// tellStatus tells the origin every few seconds how the node is.
func (n *Node) tellStatus(ctx context.Context) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		if n.link.Up() {
			if err := n.link.Send(wire.VerbStatus, n.status()); err != nil {
				n.config.Log.Debug("status not told", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.news:
		}
	}
}

func (n *Node) status() *wire.Status {
	s := &wire.Status{
		Region: n.config.Region, Release: n.config.Release, Seq: n.store.Cursor().Seq,
		Outbox: n.store.Outbox.Len(), HotKeys: n.store.Keys.Len(), Sandboxes: sandboxesOf(n.runtime),
		Traffic: n.metrics.traffic.sum(),
	}
	s.Running, s.Candidate = n.release.status()
	return s
}

// Stop lets requests under way end, until ctx does, and brings everything to
// disk. Leads that the origin does not have yet are handed over after the next
// start. It may be called twice.
func (n *Node) Stop(ctx context.Context) error {
	n.once.Do(func() { n.err = n.stop(ctx) })
	return n.err
}

func (n *Node) stop(ctx context.Context) error {
	n.ready.Store(false)
	var errs []error
	if n.front != nil {
		errs = append(errs, n.front.stop(ctx))
	}
	if n.cancel != nil {
		n.cancel()
		n.running.Wait()
	}
	if n.replication != nil {
		n.replication.Stop()
	}
	if n.runtime != nil {
		errs = append(errs, n.runtime.Close(context.WithoutCancel(ctx)))
	}
	if n.link != nil {
		n.link.Close()
	}
	if n.operators != nil {
		errs = append(errs, n.operators.stop(ctx))
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop node: %w", err)
	}
	return nil
}
