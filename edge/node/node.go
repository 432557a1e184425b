// Package node is a regional node: it serves the partner API by modules in
// sandboxes, from records on its own disk.
//
// A request is answered without the origin whenever the node holds what it
// needs. Package replication keeps the records in step with the origin and hands
// leads over to it; package rollout runs the modules of signed releases. This
// package configures, starts and stops both, and serves HTTP. While the origin is
// away, the node serves what it holds.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/closers"
	"partneredge/edge/hosts"
	"partneredge/edge/node/replication"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/node/requestlog"
	"partneredge/edge/node/rollout"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/local"
	"partneredge/store/signal"
	"partneredge/wasm/httpfront"
)

// Node is a running node.
type Node struct {
	config      Config
	metrics     *metrics
	store       *local.Store
	link        *link.Link
	replication *replication.Replication
	runtime     *host.Runtime
	releases    *rollout.Controller
	requests    *requestlog.Log
	changed     signal.Signal // the status has changed

	front, operators *listener
	ready            atomic.Bool

	started closers.Stack // what Stop ends
}

// ErrNoOrigin ends the start of a node that holds no records.
var ErrNoOrigin = errors.New("origin is not reached")

const (
	// statusInterval separates two reports of a node's status to the origin.
	statusInterval = 2 * time.Second
	// awaitCurrent bounds the wait of a starting node that has records for the
	// origin.
	awaitCurrent = 2 * time.Second
	// callTimeout bounds each of the two modules that answer a request, their
	// waiting for the origin counted.
	callTimeout = 10 * time.Second
	// placeTimeout is how long a request about subscriptions waits, in its sandbox, until
	// fewer are under way: a burst of all that a key may ask for is done by then, and one who
	// waits for a slow name server keeps others out for no longer.
	placeTimeout = time.Second
	// trimSandboxes is how long sandboxes are kept that a burst of requests needed and
	// nobody uses since. To make one again takes 30 us.
	trimSandboxes = 2 * time.Second
)

// Start returns once the node is ready to serve: its modules are compiled, its
// state is open, and it has caught up with the origin, or holds records from
// before and cannot reach it. ctx bounds starting, not running.
func Start(ctx context.Context, c Config) (*Node, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n := newNode(c)
	if err := n.start(ctx); err != nil {
		_ = n.Stop(context.Background())
		return nil, fmt.Errorf("start node: %w", err)
	}
	return n, nil
}

// newNode returns a node that has yet to be started; c has its defaults.
func newNode(c Config) *Node {
	return &Node{config: c, metrics: newMetrics(c), requests: requestlog.New(), changed: signal.New()}
}

// URL returns the base address of the partner API, such as "http://127.0.0.1:8080".
func (n *Node) URL() string { return n.front.url }

// MetricsURL returns the base address of /metrics, /healthz and /readyz.
func (n *Node) MetricsURL() string { return n.operators.url }

// ID returns the node's id, which its credentials name.
func (n *Node) ID() string { return n.link.ID() }

func (n *Node) start(ctx context.Context) (err error) {
	c := n.config
	tlsConfig, err := c.tls(&n.metrics.expiry)
	if err != nil {
		return err
	}
	n.metrics.service(n.outOfService)
	if n.operators, err = listen(c.Metrics, nil, hosts.Guard(n.metrics.operators(n.obstacle)), c); err != nil {
		return err
	}
	n.started.Add(n.operators.stop)
	if err := CheckListen(c.Listen); err != nil {
		return err
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	if n.front, err = listen(c.Listen, tlsConfig, n.partnerAPI(n.releases, n.releases.Docs), c); err != nil {
		return err
	}
	n.started.Add(n.front.stop)
	n.ready.Store(true)
	c.Log.Info("node is ready", "node", n.ID(), "region", c.Region, "url", n.front.url, "leads_waiting", n.store.Outbox.Len())
	return nil
}

// open brings up all of the node but its listeners.
func (n *Node) open(ctx context.Context) (err error) {
	c := n.config
	n.store, err = local.Open(local.Config{
		Dir: filepath.Join(c.Data, "state"), KeepLeads: c.KeepLeads, Lockout: c.Lockout, FS: c.FS, Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return err
	}
	n.started.Add(func(context.Context) error { return n.store.Close() })
	if err := n.startReplication(); err != nil {
		return err
	}
	if err := n.openReleases(ctx); err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.releases.Run(life) })
	running.Go(func() { n.sendStatus(life) })
	n.started.AddFunc(func() { cancel(); running.Wait() })
	return n.awaitOrigin(ctx)
}

// startReplication begins to connect to the origin.
func (n *Node) startReplication() (err error) {
	c := n.config
	if hosts.Exposed(c.Origin) {
		c.Log.Warn("the way to the origin is not encrypted: use tls:// off this machine", "origin", c.Origin)
	}
	n.link, err = link.New(link.Config{
		URL: c.Origin, Credentials: c.Credentials, Region: c.Region, CA: c.OriginCA, Dialer: c.dialer,
		Observe: n.metrics.originAnswered, Tracer: c.Tracer, Log: c.Log,
	})
	if err != nil {
		return err
	}
	n.started.AddFunc(n.link.Close)
	n.replication, err = replication.New(replication.Config{
		Store: n.store, Link: n.link, ReadTimeout: c.ReadOrigin, WriteTimeout: c.WriteOrigin, PlaceTimeout: c.placeTimeout, MaxStale: c.MaxStale,
		NoteAge: noteAge, Requests: n.answeredRequests, Counters: n.metrics.replication(), Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return err
	}
	n.started.AddFunc(n.replication.Stop)
	if err := n.replication.Start(); err != nil {
		return err
	}
	n.metrics.watch(n.store, n.link.Up, c.Now)
	return nil
}

// openReleases opens the release that ran before, or the modules of the node's
// own disk.
func (n *Node) openReleases(ctx context.Context) (err error) {
	c := n.config
	if err := os.MkdirAll(c.Cache, 0o700); err != nil {
		return fmt.Errorf("make compile cache: %w", err)
	}
	if n.runtime, err = host.New(ctx, host.Config{
		Engine: c.Engine, CacheDir: c.Cache, Log: c.Log, Clock: c.Now, CheckDial: c.CheckDial, Trim: trimSandboxes,
	}); err != nil {
		return err
	}
	n.started.Add(func(ctx context.Context) error { return n.runtime.Close(context.WithoutCancel(ctx)) })
	n.metrics.registry.MustRegister(newModuleMetrics(n.runtime))
	n.releases, err = rollout.Open(ctx, rollout.Config{
		Dir: c.Data, FS: c.FS, Modules: c.Modules, Policy: release.Policy{Keys: c.ReleaseKeys, Min: c.MinRelease},
		Runtime: n.runtime, Cache: c.Cache, MaxCache: c.MaxCache, Capabilities: n.replication.Capabilities(), CallTimeout: c.callTimeout, CallCPU: c.ModuleCPU,
		Origin: n.link, FetchTimeout: c.WriteOrigin, Front: n.moduleFront(n.replication.FindKey), Changed: n.changed.Send,
		Progress: c.Progress, Log: c.Log,
	})
	if err != nil {
		return err
	}
	n.metrics.registry.MustRegister(newReleaseMetrics(n.releases.Status))
	return nil
}

// awaitOrigin returns when the node has every change, or can do without.
func (n *Node) awaitOrigin(ctx context.Context) error {
	holds := n.store.Keys.Len() > 0
	timeout := n.config.StartTimeout
	if holds {
		timeout = min(timeout, awaitCurrent)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	n.config.Log.Warn("origin is away: serving what is held", "keys", n.store.Keys.Len(), "last_heard", n.store.Cursor().CompleteAt)
	return nil
}

// leastRoom is the room in the outbox, in bytes, below which a node is not ready.
// The largest lead is not much smaller.
const leastRoom = 64 << 10

// outOfService returns why the node is to get no requests, "" if it is to.
func (n *Node) outOfService() string {
	switch {
	case !n.ready.Load():
		return "starting or stopping"
	case n.link.Revoked():
		return "node was revoked: it answers from what it holds, and should get no more requests"
	case n.replication.Stale():
		return "origin not heard for " + n.config.MaxStale.String() + ", so no record is trusted"
	}
	if err := n.releases.Refusal(); err != nil {
		return err.Error()
	}
	return ""
}

// obstacle returns why the node is not ready to serve, "" if it is.
func (n *Node) obstacle() string {
	switch why := n.outOfService(); {
	case why != "":
		return why
	case n.store.InMemory():
		return "disk takes nothing: reads go on, with limits and records in memory"
	case n.store.Outbox.Room() < leastRoom:
		return "outbox or its disk full: leads are refused, reads go on"
	}
	return ""
}

// sendStatus sends the node's status to the origin at each interval and at each
// change, until ctx ends.
func (n *Node) sendStatus(ctx context.Context) {
	tick := time.Tick(statusInterval)
	for {
		if n.link.Up() {
			if err := n.link.Send(wire.VerbStatus, n.status()); err != nil {
				n.config.Log.Debug("status not sent", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-n.changed:
		}
	}
}

func (n *Node) status() *wire.Status {
	s := &wire.Status{
		Region: n.config.Region, Build: n.config.Version, Seq: n.store.Cursor().Seq,
		Outbox: n.store.Outbox.Len(), HotKeys: n.store.Keys.Len(), Sandboxes: sandboxes(n.runtime), Traffic: new(n.metrics.traffic.Sum()),
		ShortChanges: true,
	}
	s.Running, s.Candidate = n.releases.Status()
	s.RolledBack = new(n.releases.RolledBack())
	return s
}

// partnerAPI returns the handler of the partner API's listener; modules answers all
// but what it answers itself, and docs returns the handler of its document.
func (n *Node) partnerAPI(modules http.Handler, docs func() http.Handler) http.Handler {
	serves := func() bool { return n.outOfService() == "" }
	return httpfront.WithRequestID(n.config.Now, nil, withHealth(serves, withDocs(docs, traced(n.config.Tracer, modules))))
}

// Stop drains the node, lets requests under way end, until ctx does, and brings
// everything to disk. Leads that the origin does not have yet are handed over after
// the next start. It may be called twice.
func (n *Node) Stop(ctx context.Context) error {
	if n.ready.Swap(false) {
		n.releases.Stopping()
		if n.config.Drain > 0 {
			n.config.Log.Info("node drains: balancers are told to send no more requests", "for", n.config.Drain)
			_ = backoff.Pause(ctx, n.config.Drain)
		}
	}
	if err := n.started.Close(ctx); err != nil {
		return fmt.Errorf("stop node: %w", err)
	}
	return nil
}
