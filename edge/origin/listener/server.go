// Package listener is the origin's HTTP listener. It authenticates requests by admin token, and
// serves the admin API, the registry of releases, the console and the metrics.
package listener

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

	"partneredge/edge/backoff"
	"partneredge/edge/certificate"
	"partneredge/edge/connections"
	"partneredge/edge/logging"
	"partneredge/edge/origin/admin"
	"partneredge/edge/origin/listener/attempts"
	"partneredge/edge/origin/registry"
	"partneredge/edge/proxies"
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
	// HandshakeTimeout bounds TLS, and the time for a request's headers. 0: 5 s.
	HandshakeTimeout time.Duration

	// Proxies are those before the listener, whose X-Forwarded-For is believed. Wrong tokens
	// count for their clients, and the audit log names these. Default: none.
	Proxies proxies.Set

	// Admin configures the admin API. Its database, log and clock are the listener's
	// as well.
	Admin admin.Config
	// Console makes the console, which calls api in this process as others call it
	// over HTTP. nil: there is none.
	Console func(api http.Handler) (Console, error)
	// Ready reports whether nodes can be reached.
	Ready func() bool
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

// Server is the listener. Each request carries a token, but for /healthz, /readyz, and
// /metrics from this machine. Those of the console carry the cookie of a session.
type Server struct {
	Config
	db    *central.DB
	log   *slog.Logger
	token string // of the file; the others are in the database

	limited  *logging.Limiter // while the database is away, any request fails
	attempts *attempts.Limit
	uses     uses // of tokens

	api      http.Handler
	registry http.Handler
	console  Console // nil: none

	url     string
	server  *http.Server
	serving sync.WaitGroup
}

// newServer makes a Server that does not listen yet. Its streams end with running.
func newServer(running context.Context, cfg Config) (s *Server, err error) {
	s = &Server{
		Config: cfg, db: cfg.Admin.DB, log: cfg.Admin.Log,
		limited:  logging.New(cfg.Admin.Log),
		attempts: attempts.New(cmp.Or(cfg.WrongTokens, attempts.Burst), cfg.Admin.Now),
		registry: registry.New(cfg.Admin.DB, cfg.Admin.Log),
	}
	if s.token, err = openToken(cfg.TokenFile); err != nil {
		return nil, err
	}
	s.api = admin.New(running, cfg.Admin, func(r *http.Request) error {
		_, err := s.actor(r)
		return err
	})
	if cfg.Console != nil {
		if s.console, err = cfg.Console(http.HandlerFunc(s.authenticated)); err != nil {
			return nil, fmt.Errorf("starting the console: %w", err)
		}
	}
	handshake := cmp.Or(cfg.HandshakeTimeout, 5*time.Second)
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: handshake,
		ReadTimeout:       handshake + 10*time.Second, // with the body
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// adminConnections bound the listener's connections, and its requests over HTTP/2. Each open
// stream and page of the console is one; a proxy before it is one address.
var adminConnections = connections.Bounds{All: 1024, Address: 512, Network: 768}

// Start listens until Stop is called.
func Start(cfg Config) (*Server, error) {
	running, cancel := context.WithCancel(context.Background())
	s, err := newServer(running, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting the admin API: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	exempt := func(netip.Addr) bool { return false }
	listener = connections.Bound(listener, adminConnections, exempt, s.log)
	if cfg.Certificate != nil {
		s.server.Handler = connections.BoundRequests(s.server.Handler, adminConnections, exempt)
		s.url = "https://" + listener.Addr().String()
		s.server.TLSConfig = certificate.HTTPS(cfg.Certificate)
		listener = tls.NewListener(listener, s.server.TLSConfig)
	}
	s.server.RegisterOnShutdown(cancel)
	if s.console != nil {
		s.server.RegisterOnShutdown(s.console.Close)
	}
	s.serving.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin API ended", "err", err)
		}
	})
	s.serving.Go(func() {
		backoff.Every(running, attempts.ReportEvery, func() { s.noteReports(running) })
	})
	return s, nil
}

// URL returns the address of the listener, such as http://127.0.0.1:8081.
func (s *Server) URL() string { return s.url }

// Token returns the token of the file.
func (s *Server) Token() string { return s.token }

// Stop lets requests end, until ctx does.
func (s *Server) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stopping the admin API: %w", err), s.server.Close())
	}
	s.serving.Wait()
	s.uses.end(ctx)
	s.noteReports(ctx)
	return err
}
