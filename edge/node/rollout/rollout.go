// Package rollout runs releases on a node. It fetches and verifies a release that
// the origin orders, opens and smoke-tests it beside the one that answers, gives
// it its share of the requests, withdraws it if it does clearly worse, and keeps
// what a rollback needs.
//
// A release that does not come from the origin, the modules of the node's own
// disk, has no digest and no version.
package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/durable"
	"partneredge/wasm/httpfront"
)

// Config of a Controller. Every field is required but FS and Progress.
type Config struct {
	// Dir is the node's data directory. The releases, and the name of the one that
	// runs, are kept in it.
	Dir string
	// FS is the file system of the node's own marks in Dir. Default: the machine's.
	FS durable.FS
	// Modules is the directory with NAME.wasm and NAME.json for each module of the
	// node's own disk.
	Modules string
	// Policy says which releases are run.
	Policy release.Policy
	// Runtime opens modules. Its compile cache, Cache, may be shared with other
	// nodes.
	Runtime *host.Runtime
	Cache   string
	// MaxCache bounds what Cache holds, in bytes: after a release was opened, the modules
	// go that were used longest ago. Default 1 GiB.
	MaxCache int64
	// Capabilities are granted to the modules of a release that gets requests.
	Capabilities host.Capabilities
	// CallTimeout bounds one call of a module, and CallCPU how long it may compute in one.
	// Default of that: host.Limits'.
	CallTimeout, CallCPU time.Duration
	// Origin is asked for releases, for FetchTimeout each time.
	Origin       Origin
	FetchTimeout time.Duration
	// Front is how each release answers HTTP. The Controller sets its Modules.
	Front httpfront.Config
	// Changed is called when what Status returns has changed.
	Changed func()
	// Progress is called by Open for each module of the node's own disk, when it
	// begins to be opened as the nth of total.
	Progress func(module string, nth, total int)
	Log      *slog.Logger
}

// Origin gives orders and releases.
type Origin interface {
	Ask(ctx context.Context, verb string, req, reply wire.Message) error
	Subscribe(verb string, messages chan *nats.Msg) error
	Decode(verb string, data []byte, m wire.Message) bool
}

// Controller brings the releases of a node to what the origin orders. It opens one
// release at a time. As an http.Handler it answers requests by the releases that
// run.
type Controller struct {
	cfg    Config
	router *router
	loader *loader
	store  *releaseStore
	log    *slog.Logger
	orders chan *nats.Msg
	opened chan opened

	stopping chan struct{} // closed by Stopping

	mu        sync.Mutex
	candidate *wire.ReleaseStatus // a release that is opened, tried, or has failed; nil: none
	refusal   error               // see Refusal
	noted     string              // see RolledBack

	// Of Run alone:
	order   *wire.Order      // the last one; nil: none yet
	opening *opening         // nil: none
	standby *deployment      // ran before; its modules are kept open for a rollback; nil: none
	retryAt time.Time        // nothing is opened before
	refused *backoff.Backoff // between tries of a settled release that is refused
	stops   bool             // the node is being stopped: no candidate is tried any more
	// refusedRun is the last settled release that was refused. While another is to be tried,
	// it is left alone: else none could ever take its place.
	refusedRun string

	// settled is true once the running release is one that was ordered to be: a restart is to
	// run it. The release of the digest before ran before it.
	settled    bool
	before     string
	rememberAt time.Time // when what a restart is to run is written down again; zero: it did not fail

	triedSince time.Time      // since when the candidate answers requests
	settleAt   time.Time      // when the runtime is to be settled; zero: it is
	settling   sync.WaitGroup // goroutines that settle the runtime after modules were opened
}

// Open opens what ran last and was not rolled back: a release, or the modules of the
// node's own disk. If a release cannot run, the one before it does, else the modules of
// the node's own disk. Run begins to obey orders.
func Open(ctx context.Context, cfg Config) (*Controller, error) {
	store, err := openStore(cfg)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, loader: &loader{cfg}, store: store, log: cfg.Log,
		orders: make(chan *nats.Msg, 64), opened: make(chan opened), stopping: make(chan struct{}),
		refused: backoff.New(refusedFirst, refusedMost), before: store.kept.Digest,
	}
	first, err := c.openFirst(ctx)
	if err != nil {
		return nil, err
	}
	c.router = newRouter(first)
	if err := cfg.Origin.Subscribe(wire.VerbRelease, c.orders); err != nil {
		return nil, err
	}
	return c, nil
}

// Stopping ends the trial of a candidate, and has no other begin: the node is being stopped, and
// may be killed before it has ended. It is called once; Run goes on to obey all other orders.
func (c *Controller) Stopping() { close(c.stopping) }

// openFirst opens what runs after the start. If the first that is to run cannot be opened, it is
// noted as refused; where it cannot be read, the origin mends it.
func (c *Controller) openFirst(ctx context.Context) (*deployment, error) {
	for _, digest := range c.store.kept.RolledBack {
		c.log.Info("a release that ran does not run: it was rolled back", "digest", digest)
	}
	toRun := c.store.kept.toRun()
	for i, digest := range toRun {
		r, err := c.store.fetch(ctx, digest)
		if err == nil {
			var d *deployment
			if d, err = c.loader.openRelease(ctx, r, func() {}); err == nil {
				c.log.Info("release runs", "digest", d.digest, "version", d.version)
				return d, nil
			}
			if i == 0 {
				c.refuseFirst(digest, r.Version, err)
			}
		}
		if ctx.Err() != nil {
			return nil, err
		}
		c.log.Error("release cannot run", "digest", digest, "err", err)
	}
	if c.store.kept.Digest != "" {
		c.log.Warn("the modules of the node's own disk run", "instead_of", toRun)
	}
	return c.loader.openFolder(ctx, c.cfg.Progress)
}

// refuseFirst notes why the release that is to run after the start is refused. It is tried
// again like one that is ordered, until the origin orders something.
func (c *Controller) refuseFirst(digest, version string, why error) {
	c.refusal = fmt.Errorf("release %s was to run after the start, and is refused: %w", version, why)
	c.candidate = &wire.ReleaseStatus{Digest: digest, Version: version, State: wire.ReleaseRefused, Reason: why.Error()}
	c.order = &wire.Order{Run: digest}
	c.refusedRun, c.retryAt = digest, time.Now().Add(c.refused.Next())
}

// Refusal returns why the release that was to run after the start is refused, for as long as
// another runs than is ordered; else nil.
func (c *Controller) Refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

// RolledBack returns the release that the last order says was rolled back, once no restart runs
// it any more; else "".
func (c *Controller) RolledBack() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted
}

// ServeHTTP implements http.Handler.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.router.ServeHTTP(w, r) }

// Docs returns the handler of the running release's API document.
func (c *Controller) Docs() http.Handler { return c.router.routes.Load().running.modules.docs }

// Status returns how the running release is, and the candidate: the release that
// is opened, tried or has failed, nil if there is none.
func (c *Controller) Status() (running, candidate *wire.ReleaseStatus) {
	routes := c.router.routes.Load()
	counts := routes.running.counts()
	running = &wire.ReleaseStatus{Digest: routes.running.digest, Version: routes.running.version, Counts: &counts}
	if candidate = c.candidateStatus(); candidate == nil {
		return running, nil
	}
	status := *candidate
	status.Reason = wire.CutReason(status.Reason)
	if routes.candidate != nil && routes.candidate.digest == status.Digest {
		counts := routes.candidate.counts()
		status.Counts = &counts
	}
	return running, &status
}

// candidateStatus returns the status of the candidate without its counts. It is
// never changed.
func (c *Controller) candidateStatus() *wire.ReleaseStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.candidate
}

// setCandidate replaces the status of the candidate.
func (c *Controller) setCandidate(status *wire.ReleaseStatus) {
	c.mu.Lock()
	c.candidate = status
	c.mu.Unlock()
	c.cfg.Changed()
}

// updateCandidate changes the status of the candidate, if there is one.
func (c *Controller) updateCandidate(change func(*wire.ReleaseStatus)) {
	c.mu.Lock()
	if c.candidate != nil {
		status := *c.candidate
		change(&status)
		c.candidate = &status
	}
	c.mu.Unlock()
	c.cfg.Changed()
}

// reached sets the state of the candidate, if it is the release of digest.
func (c *Controller) reached(digest, version string, state wire.ReleaseState) {
	c.updateCandidate(func(s *wire.ReleaseStatus) {
		if s.Digest == digest {
			s.Version, s.State, s.Reason = version, state, ""
		}
	})
}

// ended sets the state of a candidate that will answer no request.
func (c *Controller) ended(state wire.ReleaseState, reason string) {
	c.updateCandidate(func(s *wire.ReleaseStatus) { s.State, s.Reason, s.Percent = state, reason, 0 })
}
