// Package admin serves the admin API: the HTTP listener of operators, of the
// services that feed accounts, of registry clients, and of the console.
package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"partneredge/edge/certificate"
	"partneredge/edge/connections"
	"partneredge/edge/origin/admin/attempts"
	"partneredge/edge/origin/registry"
	"partneredge/edge/origin/replication"
	"partneredge/edge/origin/rollout"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// Config of a Server. Every field is required unless it says otherwise.
type Config struct {
	// Addr is where the listener listens, host:port; port 0 is any free one.
	Addr string
	// Certificate of the listener. nil: plain HTTP.
	Certificate certificate.Get
	// TokenFile holds the admin token and nothing else but white space around it.
	// Made, 0600, when it does not exist.
	TokenFile string

	// WrongTokens is how many wrong tokens an address may present at once, and then one
	// every six seconds. 0: 20.
	WrongTokens int

	DB       *central.DB
	Nodes    *replication.Presence
	Rollouts *rollout.Controller
	// Credentials makes those of a new node.
	Credentials func(nodeID, region string) (credentials, publicKey string, err error)
	// Lockouts asks every enrolled node about its lockouts.
	Lockouts func(context.Context, wire.LockoutsRequest) []replication.NodeAnswer[wire.LockoutsReply]
	// Requests asks every enrolled node about requests that it answered.
	Requests func(context.Context, wire.RequestsRequest) []replication.NodeAnswer[wire.RequestsReply]
	// Ready reports whether nodes can be reached.
	Ready func() bool
	// Tail returns the tries of this process's sender as they end, until end is
	// called.
	Tail func() (tries <-chan store.Tried, end func())
	// Console makes the console, which calls api in this process as others call it
	// over HTTP. nil: there is none.
	Console func(api http.Handler) (Console, error)

	Log *slog.Logger
	Now func() time.Time
	// Tracer makes spans of requests. nil: none.
	Tracer *tracing.Tracer
	// Metrics serves GET /metrics.
	Metrics http.Handler
	// Observe is called after each request, but for event streams.
	Observe func(route string, status int, took time.Duration)
}

// Console is the web page of operators, served below /console/. It uses the
// admin API with the token of whoever has logged in.
type Console interface {
	http.Handler
	// Close ends the answers that would go on for as long as a page is open. It
	// returns at once.
	Close()
}

// api serves the listener. Each request carries a token, but for /healthz,
// /readyz, and /metrics from this machine.
type api struct {
	Config
	token string // of the file; the others are in the database

	attempts            *attempts.Limit
	retries, recoveries *throttle // by subscription
	uses                uses      // of tokens

	streams chan struct{}   // holds one for each open stream
	running context.Context // ends when the listener is to

	routes   *http.ServeMux
	registry http.Handler
	console  Console // nil: none
}

func newAPI(running context.Context, cfg Config) (*api, error) {
	a := &api{
		Config: cfg, running: running,
		attempts:   attempts.New(cmp.Or(cfg.WrongTokens, attempts.Burst), cfg.Now),
		retries:    newThrottle(time.Second, 60, cfg.Now),
		recoveries: newThrottle(10*time.Second, 6, cfg.Now),
		streams:    make(chan struct{}, maxStreams),
		registry:   registry.New(cfg.DB, cfg.Log),
	}
	var err error
	if a.token, err = openToken(cfg.TokenFile); err != nil {
		return nil, err
	}
	a.routes = a.mux()
	if cfg.Console != nil {
		if a.console, err = cfg.Console(http.HandlerFunc(a.authenticated)); err != nil {
			return nil, fmt.Errorf("starting the console: %w", err)
		}
	}
	return a, nil
}

// Server is the listener of the admin API.
type Server struct {
	api     *api
	url     string
	server  *http.Server
	serving sync.WaitGroup
}

// adminConnections bound the listener's connections. Each open stream and page of the
// console is one; a proxy before it is one address.
var adminConnections = connections.Bounds{All: 1024, Address: 512, Network: 768}

// Start serves the admin API until Stop is called.
func Start(cfg Config) (*Server, error) {
	running, cancel := context.WithCancel(context.Background())
	a, err := newAPI(running, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting the admin API: %w", err)
	}
	s := &Server{
		api: a,
		url: "http://" + listener.Addr().String(),
		server: &http.Server{
			Handler:           a.handler(),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       15 * time.Second,
			WriteTimeout:      60 * time.Second,
			IdleTimeout:       60 * time.Second,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		},
	}
	listener = connections.Bound(listener, adminConnections, func(netip.Addr) bool { return false })
	if cfg.Certificate != nil {
		s.url = "https://" + listener.Addr().String()
		s.server.TLSConfig = certificate.HTTPS(cfg.Certificate)
		listener = tls.NewListener(listener, s.server.TLSConfig)
	}
	s.server.RegisterOnShutdown(cancel)
	if a.console != nil {
		s.server.RegisterOnShutdown(a.console.Close)
	}
	s.serving.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Error("admin API ended", "err", err)
		}
	})
	return s, nil
}

// URL returns the address of the listener, such as http://127.0.0.1:8081.
func (s *Server) URL() string { return s.url }

// Token returns the token of the file.
func (s *Server) Token() string { return s.api.token }

// Stop lets requests end, until ctx does.
func (s *Server) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stopping the admin API: %w", err), s.server.Close())
	}
	s.serving.Wait()
	return err
}

// Route is one method and path of the admin API.
type Route struct {
	Pattern string     // as of http.ServeMux
	Role    store.Role // the least that it asks for
}

// Routes returns every route, each of which is in openapi.json.
func Routes() (all []Route) {
	for _, r := range new(api).all() {
		all = append(all, Route{r.pattern, least(r.pattern)})
	}
	return all
}

// Handler serves what the listener serves.
func (s *Server) Handler() http.Handler { return s.server.Handler }
