// Package replication keeps a node and its origin in step over one link.
//
// From the origin come records, which the node keeps as a replica and serves
// while they are known to be current, and the changes that make them stale.
// To the origin go leads, from an outbox on disk, reports of the rate limits
// that the node has spent, and requests for subscriptions. Modules reach all of
// it as host.Capabilities.
package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication/leads"
	"partneredge/edge/places"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/local"
)

// Config of a Replication. Every field is required.
type Config struct {
	Store *local.Store
	// Link to the origin, not connected yet; Start connects it.
	Link Link
	// ReadTimeout bounds a request for a key or a view, WriteTimeout a request that
	// changes something at the origin.
	ReadTimeout, WriteTimeout time.Duration
	// PlaceTimeout bounds the wait of a request about subscriptions until fewer of its
	// caller's are under way.
	PlaceTimeout time.Duration
	// MaxStale bounds the time for which a record is served after the node last knew
	// that nothing had changed, and a view after it changed.
	MaxStale time.Duration
	// NoteAge is called when a request is answered from a record that has not been
	// known to be current for age; age may be 0.
	NoteAge func(ctx context.Context, age time.Duration)
	// Requests answers the origin's questions about requests of the node's log.
	Requests func(wire.RequestsRequest) *wire.RequestsReply
	Counters Counters
	Log      *slog.Logger
	Now      func() time.Time
}

// Link is a link.Link. Tests have others.
type Link interface {
	Connect(connected, lost func()) error
	Up() bool
	Ask(ctx context.Context, verb string, req, reply wire.Message) error
	Send(verb string, m wire.Message) error
	Decode(verb string, data []byte, m wire.Message) bool
	Reply(verb string, request *nats.Msg, answer func() wire.Message) error
	SubscribeChanges(take func(*nats.Msg)) error
	Subscribe(verb string, ch chan *nats.Msg) error
}

// Counters are called with what has happened, and how often.
type Counters struct {
	Keys    func(outcome string, n int) // look-ups: hit, miss, stale, negative
	Views   func(outcome string, n int) // reads: hit, miss, stale, page, outage
	Leads   func(outcome string, n int) // accepted, committed, rejected
	Reports func(what string, n int)    // keys: reported, repeated, shares
}

// Replication is the exchange of one node with its origin.
type Replication struct {
	link         Link
	sync         *synchronizer
	replica      *replica
	handoff      *leads.Handoff
	reporter     *reporter
	subscribed   *subscriptions
	operators    *operators
	keys         keys
	capabilities host.Capabilities

	ctx     context.Context // of the background work
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a Replication that has not been started.
func New(cfg Config) (*Replication, error) {
	r := &Replication{link: cfg.Link}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.replica = newReplica(r.ctx, cfg)
	ofLeads := leads.Config{
		Store: cfg.Store, Link: cfg.Link, KeyHash: cfg.keyHash, WriteTimeout: cfg.WriteTimeout,
		Count: cfg.Counters.Leads, Log: cfg.Log, Now: cfg.Now,
	}
	r.handoff = leads.NewHandoff(ofLeads)
	r.subscribed = newSubscriptions(cfg)
	r.operators = newOperators(cfg)
	r.sync = newSynchronizer(cfg, r.replica, func() error { return r.handoff.OfferAgain(r.ctx) })
	var err error
	if r.reporter, err = newReporter(cfg); err != nil {
		r.cancel()
		return nil, err
	}
	r.keys = keys{r.replica, r.sync, newLookups(r.replica)}
	limits := limits{r.reporter}
	r.capabilities = host.Capabilities{
		Keys:          r.keys,
		Buckets:       limits,
		Lockouts:      limits,
		Views:         views{r.replica, r.sync, &places.Places[caller]{Each: maxWaiting}},
		Subscriptions: r.subscribed,
		Outbox:        leads.NewOutbox(ofLeads),
	}
	return r, nil
}

// Start begins to connect to the origin and starts the background work. It does
// not wait for the connection.
func (r *Replication) Start() error {
	if err := r.link.Connect(r.connected, r.lost); err != nil {
		return err
	}
	if err := r.link.SubscribeChanges(r.sync.take); err != nil {
		return err
	}
	if err := r.link.Subscribe(wire.VerbShare, r.reporter.shares); err != nil {
		return err
	}
	if err := r.operators.subscribe(); err != nil {
		return err
	}
	for range renewers {
		r.running.Go(r.replica.renewAll)
	}
	for _, run := range []func(context.Context){r.sync.run, r.replica.refillAll, r.sync.state.watch, r.handoff.Run, r.handoff.OfferDue, r.reporter.run, r.subscribed.run, r.operators.run} {
		r.running.Go(func() { run(r.ctx) })
	}
	return nil
}

// connected is called each time that the link has a connection.
func (r *Replication) connected() {
	r.sync.state.connect()
	r.handoff.Reconnected()
	r.reporter.reconnected.Send()
}

// lost is called each time that the connection ends.
func (r *Replication) lost() {
	r.sync.state.disconnect()
	r.replica.disconnect()
}

// Stop ends the background work and waits for it. It may be called twice. Leads
// that the origin does not have yet stay in the outbox.
func (r *Replication) Stop() {
	r.cancel()
	r.running.Wait()
}

// Capabilities returns what modules are granted by this node.
func (r *Replication) Capabilities() host.Capabilities { return r.capabilities }

// Current returns a channel that is closed once the node has known every change
// of the origin's for the first time.
func (r *Replication) Current() <-chan struct{} { return r.sync.state.current }

// Stale reports whether the last message of the origin is so old that no record
// may be served.
func (r *Replication) Stale() bool { return !r.sync.trusts(local.Record{}) }
