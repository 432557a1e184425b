package origin

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/origin/listener"
	"partneredge/edge/origin/replication"
	"partneredge/edge/tracing"
	"partneredge/store"
	"partneredge/store/central"
)

// Config of an origin.
type Config struct {
	// Dir holds what is not in SQL: the NATS keys and the admin token. Made, 0700,
	// when it is not there. Required.
	Dir string
	// DB holds all records. Required; the caller opens and closes it.
	DB *central.DB
	// Guard of webhook targets. Required.
	Guard replication.Guard
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

	// AdminProxies are the networks of proxies before the admin listener, whose
	// X-Forwarded-For is believed. Default: none.
	AdminProxies []netip.Prefix
	// WrongTokens is how many wrong tokens an address may present to the admin API at
	// once, and then one every six seconds. 0: 20.
	WrongTokens int

	// HandshakeTimeout bounds how long a client may take to be known: TLS, and a request's
	// headers or NATS credentials. 0: 5 s, and 10 s for the embedded server to know one.
	HandshakeTimeout time.Duration

	// NATSListen is where the embedded NATS server listens, host:port; port 0 is any
	// free one. "": 127.0.0.1:0. Unused with NATSURL.
	NATSListen string
	// NATSLeafListen is where the embedded server takes the NATS servers of regions, its
	// leaf nodes, host:port. Default: nowhere.
	NATSLeafListen string
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

	// AllowOldNodes makes the origin believe requests of every node without the hash of a
	// key, as it believes those of nodes that have never spoken wire version 2: for a
	// return to an earlier program.
	AllowOldNodes bool

	// OnWake is called when another origin process of the database has written
	// deliveries that its sender did not take. It must return at once. nil: nothing
	// is called.
	OnWake func()
	// Tail gives the tries of this process's sender as they end, until end is
	// called. nil: there are none.
	Tail func() (tries <-chan store.Tried, end func())
	// Retention is how long records are kept.
	Retention Retention
	// Console makes the pages for people, which call api in this process as others
	// call it over HTTP. nil: there are none.
	Console func(api http.Handler) (listener.Console, error)
	// Tracer makes spans of requests; the caller stops it. nil: none.
	Tracer *tracing.Tracer
	// Build is the version of the program, for metrics. "": "dev".
	Build string
	// Metrics gets the origin's. nil: a registry of its own. GET /metrics shows it.
	Metrics *prometheus.Registry
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.AdminAddr = cmp.Or(c.AdminAddr, "127.0.0.1:0")
	c.AdminTokenFile = cmp.Or(c.AdminTokenFile, filepath.Join(c.Dir, "admin.token"))
	c.NATSKeys = cmp.Or(c.NATSKeys, filepath.Join(c.Dir, "nats"))
	c.NATSListen = cmp.Or(c.NATSListen, "127.0.0.1:0")
	c.Build = cmp.Or(c.Build, "dev")
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnWake == nil {
		c.OnWake = func() {}
	}
	if c.Tail == nil {
		c.Tail = func() (<-chan store.Tried, func()) { return nil, func() {} }
	}
	return c
}
