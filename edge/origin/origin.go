// Package origin is the centre that regional nodes talk to: the directory of
// accounts, agents and keys, the place where insights, firings and other events
// come in, and the admin API over all of it.
//
// Start brings up, in this order, NATS (embedded, or a connection to a cluster),
// the answers to the nodes' requests, the push of changes, and the admin API on
// a listener of its own. Everything that must last is in SQL; an origin process
// holds nothing that another could not take over, so that several can share one
// database and one NATS cluster.
package origin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/certificate"
	"partneredge/edge/logging"
	"partneredge/edge/tracing"
	"partneredge/store"
	"partneredge/store/central"
)

// Guard judges whether a webhook target may be called.
type Guard interface {
	// Check returns the name of the rule that refuses rawURL, "" when none does.
	// err means that it could not be told.
	Check(ctx context.Context, rawURL string) (reason string, err error)
}

// Config of an origin.
type Config struct {
	// Dir holds what is not in SQL: the NATS keys and the admin token. Made, 0700,
	// when it is not there. Required.
	Dir string
	// DB holds all records. Required; the caller opens and closes it.
	DB *central.DB
	// Guard of webhook targets. Required.
	Guard Guard
	// Log. nil: none.
	Log *slog.Logger
	// Now is the clock. nil: time.Now.
	Now func() time.Time

	// AdminAddr is where the admin API listens, host:port; port 0 is any free one.
	// "": 127.0.0.1:0.
	AdminAddr string
	// AdminCert and AdminKey are PEM files; with them the admin API and the console
	// are HTTPS (TLS 1.3). When they change, new connections get the new
	// certificate. "": plain HTTP, for loopback and private networks.
	AdminCert, AdminKey string
	// AdminTokenFile holds the admin token and nothing else but white space around
	// it. Made, 0600, when it is not there. "": Dir/admin.token.
	AdminTokenFile string

	// NATSListen is where the embedded NATS server listens, host:port; port 0 is any
	// free one. "": 127.0.0.1:0. Unused with NATSURL.
	NATSListen string
	// NATSCert and NATSKey are PEM files; with them the embedded server takes only
	// TLS 1.3, with the new certificate when they change. "": no TLS, for loopback
	// and private networks.
	NATSCert, NATSKey string

	// NATSURL of a cluster to use in place of the embedded server, or several by
	// comma. Its servers include NATSKeys/cluster.conf, which Start writes. "":
	// embedded.
	NATSURL string
	// NATSKeys is the directory of the keys that sign nodes' credentials, made
	// on first start: the same for all origins of a cluster. "": Dir/nats.
	NATSKeys string
	// NATSCredentials is the .creds file to join the cluster with. "": credentials
	// made with the account's key.
	NATSCredentials string
	// NATSCA is a PEM file of who may sign the cluster's certificates. "": the
	// system's.
	NATSCA string

	// OnWake is called when another origin process of the database says that
	// deliveries are due (see WakeOthers); it must return at once. nil: nobody is
	// told.
	OnWake func()
	// Tail gives the tries of this process's sender as they end, until end is
	// called. nil: there are none.
	Tail func() (tries <-chan store.Tried, end func())
	// DeliveryRetention is how long deliveries that have ended stay in the log.
	// 0: 30 days. Negative: for good.
	DeliveryRetention time.Duration
	// Console makes the pages for people, which call api in this process as others
	// call it over HTTP. nil: there are none.
	Console func(api http.Handler) (Console, error)
	// Tracer makes spans of requests; the caller stops it. nil: none.
	Tracer *tracing.Tracer
	// Release is the version that the origin says it is. "": "dev".
	Release string
	// Metrics gets the origin's. nil: a registry of its own. GET /metrics shows it.
	Metrics *prometheus.Registry
}

// Origin that has been started.
type Origin struct {
	broker   *broker
	requests *requests
	pump     *pump
	waker    *waker
	admin    *adminServer

	cancel   context.CancelFunc // of the loops
	loops    sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// Start an origin. It returns once nodes and operators are answered; ctx bounds
// the start only. The caller ends it with Stop.
func Start(ctx context.Context, c Config) (_ *Origin, err error) {
	if c.Dir == "" || c.DB == nil || c.Guard == nil {
		return nil, errors.New("starting the origin: Dir, DB and Guard are required")
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	token, err := openToken(c.AdminTokenFile, c.Log)
	if err != nil {
		return nil, err
	}

	o := new(Origin)
	defer func() {
		if err != nil {
			// What has been started is ended; why it ended matters less than err.
			_ = o.Stop(context.WithoutCancel(ctx))
		}
	}()
	var running context.Context
	running, o.cancel = context.WithCancel(context.Background())

	fleet := &fleet{db: c.DB, log: c.Log, now: c.Now, status: make(map[string]heard), traffic: newTraffic()}
	if fleet.nodes, err = fleet.load(ctx); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	authority, err := openAuthority(c.NATSKeys)
	if err != nil {
		return nil, err
	}
	if o.broker, err = openBroker(authority, c, fleet); err != nil {
		return nil, err
	}
	fleet.revoked = o.broker.revoke
	if err := fleet.refresh(ctx); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}

	o.pump = &pump{db: c.DB, conn: o.broker.conn, log: c.Log, wake: make(chan struct{}, 1)}
	if err := o.pump.start(ctx); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	o.waker = newWaker(o.broker.conn, c.OnWake, c.Log)
	if err := o.waker.start(); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	desk := &desk{limits: &keyLimits{db: c.DB, now: c.Now}, now: c.Now, log: c.Log, conn: o.broker.conn, wake: make(chan struct{}, 1)}
	metrics := newMetrics(c, fleet, desk, o.pump)
	rollouts := newRollouts(c.DB, o.broker.conn, fleet, c)
	fleet.spoke = rollouts.heard
	o.requests = &requests{
		db: c.DB, guard: c.Guard, fleet: fleet, desk: desk, log: c.Log, seldom: logging.New(c.Log),
		trace: c.Tracer, seen: metrics.request, conn: o.broker.conn,
	}
	if err := o.requests.start(); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	o.loops.Go(func() { o.pump.run(running) })
	o.loops.Go(func() { o.waker.run(running) })
	if c.DeliveryRetention > 0 {
		old := &retention{db: c.DB, keep: c.DeliveryRetention, now: c.Now, log: c.Log}
		o.loops.Go(func() { old.run(running, retentionEvery) })
	}
	o.loops.Go(func() { fleet.run(running) })
	o.loops.Go(func() { desk.run(running) })
	o.loops.Go(func() { rollouts.run(running) })

	api := &admin{
		db: c.DB, now: c.Now, log: c.Log, trace: c.Tracer, token: token, metrics: metrics,
		authority: authority, fleet: fleet, ready: o.broker.ready,
		wrote:      o.pump.poke,
		tail:       c.Tail,
		decided:    rollouts.decided,
		retries:    newThrottle(time.Second, 60, c.Now),
		recoveries: newThrottle(10*time.Second, 6, c.Now),
	}
	if c.Console != nil {
		if api.console, err = c.Console(http.HandlerFunc(api.authenticated)); err != nil {
			return nil, fmt.Errorf("starting the console: %w", err)
		}
	}
	if o.admin, err = startAdmin(c, api); err != nil {
		return nil, err
	}
	c.Log.Info("origin is up", "admin", o.AdminURL(), "nats", o.NATSURL(), "database", c.DB.Kind(), "nodes", len(fleet.nodes))
	return o, nil
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.AdminAddr == "" {
		c.AdminAddr = "127.0.0.1:0"
	}
	if c.AdminTokenFile == "" {
		c.AdminTokenFile = filepath.Join(c.Dir, "admin.token")
	}
	if c.NATSKeys == "" {
		c.NATSKeys = filepath.Join(c.Dir, "nats")
	}
	if c.NATSListen == "" {
		c.NATSListen = "127.0.0.1:0"
	}
	if c.OnWake == nil {
		c.OnWake = func() {}
	}
	if c.Tail == nil {
		c.Tail = func() (<-chan store.Tried, func()) { return nil, func() {} }
	}
	if c.DeliveryRetention == 0 {
		c.DeliveryRetention = defaultRetention
	}
	if c.Release == "" {
		c.Release = "dev"
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

func openBroker(a *authority, c Config, f *fleet) (*broker, error) {
	revoked := revocations(f.nodes)
	if c.NATSURL != "" {
		return join(a, filepath.Join(c.NATSKeys, "cluster.conf"), cluster{c.NATSURL, c.NATSCredentials, c.NATSCA}, revoked, c.Log)
	}
	get, err := c.certificate(c.NATSCert, c.NATSKey)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	return embed(a, c.NATSListen, get, revoked, c.Log)
}

// certificate of two files, which may change; nil where there are none.
func (c Config) certificate(cert, key string) (certificate.Get, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	files, err := certificate.Open(certificate.FilesConfig{Cert: cert, Key: key, Log: c.Log, Now: c.Now})
	if err != nil {
		return nil, err
	}
	return files.Get, nil
}

// AdminURL is the address of the admin API without /admin/v1, such as
// http://127.0.0.1:8081; https:// when there is a certificate.
func (o *Origin) AdminURL() string { return o.admin.url }

// NATSURL is what nodes connect to, such as nats://127.0.0.1:4222; tls:// when
// there is a certificate.
func (o *Origin) NATSURL() string { return o.broker.url }

// Token is the admin token.
func (o *Origin) Token() string { return o.admin.token }

// Wake has changes that others wrote to the database pushed at once. It never
// blocks.
func (o *Origin) Wake() { o.pump.poke() }

// WakeOthers tells the other origin processes of the database that deliveries
// are due, soon and at most once in a moment. It never blocks.
func (o *Origin) WakeOthers() { o.waker.poke() }

// Stop ends the origin: first the admin API, then the nodes' requests, then
// NATS. What is under way is finished, or cut short when ctx ends. It returns
// when all is ended, and may be called again.
func (o *Origin) Stop(ctx context.Context) error {
	o.stopOnce.Do(func() {
		if o.admin != nil {
			o.stopErr = o.admin.stop(ctx)
		}
		if o.requests != nil && o.requests.cancel != nil {
			o.requests.stop(ctx)
		}
		if o.cancel != nil {
			o.cancel()
		}
		o.loops.Wait()
		if o.broker != nil {
			o.broker.close()
		}
	})
	return o.stopErr
}
