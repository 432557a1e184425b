package node

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"aead.dev/minisign"
	"github.com/nats-io/nats.go"

	"partneredge/edge/certificate"
	"partneredge/edge/connections"
	"partneredge/edge/release"
	"partneredge/edge/tracing"
	"partneredge/host/engine"
	"partneredge/store/durable"
	"partneredge/store/local"
)

// Config of a Node. Fields without a default are required.
type Config struct {
	// Data is the directory of the node's state and compile cache. It is made
	// when it is not there. No two nodes share one.
	Data string
	// Region the node stands in, such as "eu-west", as the origin shows it.
	Region string
	// Listen is the address of the partner API, host:port; port 0 picks one.
	// Default: "127.0.0.1:0".
	Listen string
	// Metrics is the address of /metrics, /healthz and /readyz, host:port. They
	// need no key: not for the world. Default: "127.0.0.1:0".
	Metrics string

	// Origin is the NATS URL of the origin, or several by comma.
	Origin string
	// Credentials is the file with the node's NATS credentials, as the origin
	// gave them at enrolment. The JWT's name is the node's id.
	Credentials string
	// OriginCA is a file of PEM certificates that the origin's is signed by,
	// for an origin URL with TLS. Default: those the system trusts.
	OriginCA string

	// Modules is the directory with NAME.wasm and NAME.json for each module: what
	// the node runs until a release is rolled out to it.
	Modules string
	// ReleaseKeys verify releases: the node runs none without a signature by one of
	// them, whatever the origin says. Default: none, so no release is run.
	ReleaseKeys []minisign.PublicKey
	// MinRelease is the least version of a release that the node runs, such as
	// 1.4.0. Default: any.
	MinRelease string
	// Cache is the directory of compiled modules. What lies in it is run: only
	// the node, and others of the same owner, may write there. Default:
	// Data/cache.
	Cache string
	// MaxCache bounds what lies in it, in bytes: the modules go that were used longest
	// ago. Default 1 GiB.
	MaxCache int64
	// Engine makes the engine that runs the modules. Default: host's own.
	Engine engine.New
	// ModuleCPU is how long a module may compute in one call. Default 50 ms.
	ModuleCPU time.Duration
	// Progress, if set, is called while modules are made ready: once for each,
	// when it begins, as the nth of total. A module that is not in the compile
	// cache takes seconds.
	Progress func(module string, nth, total int)

	// CheckDial judges every address that a module with an allow_dial is about
	// to connect to; an error refuses it. Default: all are refused.
	CheckDial func(netip.AddrPort) error

	// TrustedProxies are the addresses whose X-Forwarded-For is believed. Default:
	// none.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are PEM files. With both, the partner API is HTTPS
	// (TLS 1.3) with HTTP/2. When they change, new connections get the new
	// certificate. Default: plain HTTP.
	TLSCert, TLSKey string
	// ACME, in place of files, gets certificates from an authority. Its Log is by
	// default the node's. Default: no hosts, none.
	ACME certificate.ACMEConfig
	// HandshakeTimeout, for TLS, and for a request's line and headers. Default: 5 s.
	HandshakeTimeout time.Duration
	// ReadTimeout, for a whole request with its body. Default: 15 s.
	ReadTimeout time.Duration
	// WriteTimeout, from the end of the headers to the end of the answer.
	// Default: 30 s.
	WriteTimeout time.Duration

	// ReadOrigin bounds a request to the origin for a key or a view. Default: 3 s.
	ReadOrigin time.Duration
	// WriteOrigin bounds a request that changes something at the origin, which may
	// have names to look up. Default: 8 s.
	WriteOrigin time.Duration
	// StartTimeout bounds the wait of a node without records for the origin, after
	// which Start fails. A node with records waits 2 s at most, and then serves
	// those. Default: 30 s.
	StartTimeout time.Duration
	// MaxStale bounds the time for which a record is served after the node last knew
	// that nothing had changed, and a view after it changed. Default: 1 h.
	MaxStale time.Duration
	// KeepLeads is the time for which leads are kept on the disk after they were
	// handed over, at most an hour longer, to offer them again to an origin that was
	// restored from a backup. Default: 0, they are not kept.
	KeepLeads time.Duration

	// Drain is how long Stop goes on to serve, and says that the node is to get no more
	// requests, so that balancers hear of it in time. Default: 0.
	Drain time.Duration

	// Lockout rules; each field has a default, which tests and benches change.
	Lockout local.LockoutRules

	// Tracer makes spans of requests; the caller stops it. Default: none.
	Tracer *tracing.Tracer
	// Version is the program version that the node reports. Default: "dev".
	Version string
	// Log gets what happens: never a key, a token or a lead's content.
	// Default: nothing is logged.
	Log *slog.Logger
	// Now is the clock of all rules; timeouts run on the system's. Default:
	// time.Now.
	Now func() time.Time

	// FS is the file system of what must outlast a power failure in Data: records,
	// leads, the mark of a release on trial. Default: the machine's.
	FS durable.FS

	// dialer connects to the origin, for tests without a network. Default: TCP.
	dialer nats.CustomDialer
	// callTimeout bounds each of the two modules that answer a request, their waits for
	// the origin included, for tests. Default: 10 s, or two more than the longest wait for
	// the origin.
	callTimeout time.Duration
	// placeTimeout is replication's PlaceTimeout. 0: one second.
	placeTimeout time.Duration
	// connections bound those of each listener, for tests. Default: partnerConnections.
	connections connections.Bounds
}

// withDefaults returns c with its defaults, after checking it.
func (c Config) withDefaults() (Config, error) {
	for name, value := range map[string]string{
		"Data": c.Data, "Region": c.Region, "Origin": c.Origin, "Credentials": c.Credentials, "Modules": c.Modules,
	} {
		if value == "" {
			return c, fmt.Errorf("%s is not set", name)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return c, errors.New("TLSCert and TLSKey go together")
	}
	if len(c.ACME.Hosts) > 0 {
		if c.TLSCert != "" {
			return c, errors.New("there are a certificate in files and ACME hosts")
		}
		c.ACME.Dir = cmp.Or(c.ACME.Dir, filepath.Join(c.Data, "acme"))
	}
	if c.MinRelease != "" {
		if err := release.CheckVersion(c.MinRelease); err != nil {
			return c, fmt.Errorf("MinRelease: %w", err)
		}
	}
	if c.ModuleCPU < 0 {
		return c, fmt.Errorf("ModuleCPU is %v, less than nothing", c.ModuleCPU)
	}
	c.Cache = cmp.Or(c.Cache, filepath.Join(c.Data, "cache"))
	c.setDefaults()
	return c, nil
}

// setDefaults sets the defaults that need no other field.
func (c *Config) setDefaults() {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Metrics = cmp.Or(c.Metrics, "127.0.0.1:0")
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 15*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.ReadOrigin = cmp.Or(c.ReadOrigin, 3*time.Second)
	c.WriteOrigin = cmp.Or(c.WriteOrigin, 8*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 30*time.Second)
	c.MaxStale = cmp.Or(c.MaxStale, time.Hour)
	c.Version = cmp.Or(c.Version, "dev")
	c.callTimeout = cmp.Or(c.callTimeout, max(callTimeout, max(c.ReadOrigin, c.WriteOrigin)+2*time.Second))
	c.placeTimeout = cmp.Or(c.placeTimeout, placeTimeout)
	c.connections = cmp.Or(c.connections, partnerConnections)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}

// tls returns nil for plain HTTP. expiry watches the certificates.
func (c Config) tls(expiry *certificate.Expiry) (*tls.Config, error) {
	switch {
	case len(c.ACME.Hosts) > 0:
		c.ACME.Log = cmp.Or(c.ACME.Log, c.Log)
		config, err := certificate.ACME(c.ACME)
		if err != nil {
			return nil, err
		}
		config.GetCertificate = expiry.Watch(config.GetCertificate, c.ACME.Hosts...)
		return config, nil
	case c.TLSCert == "":
		return nil, nil
	}
	files, err := certificate.Open(certificate.FilesConfig{Cert: c.TLSCert, Key: c.TLSKey, Log: c.Log, Now: c.Now})
	if err != nil {
		return nil, err
	}
	return certificate.HTTPS(expiry.WatchFiles(files)), nil
}
