// Package console is the origin's pages for people: how the regions do, nodes,
// accounts and their keys, subscriptions and deliveries, tokens, the audit log.
//
// It holds nothing but sessions. Whatever it shows or changes goes through the
// admin API with the token of who has logged in, so that roles, validation and
// the audit log are those of the API, and a token that is revoked ends its
// sessions. The pages work without scripts; a small one keeps the overview live.
package console

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Path is below what the console is served.
const Path = "/console/"

// Config of the console.
type Config struct {
	// API is the admin API, from /admin/v1/ on. Required.
	API http.Handler
	// Proxies may say by X-Forwarded-Proto that they were asked by HTTPS, so that
	// cookies are Secure. Default: none may.
	Proxies []netip.Prefix
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Log. nil: none. It never gets tokens or keys.
	Log *slog.Logger
}

// Console is an http.Handler for what lies below Path. The caller ends it with
// Close.
type Console struct {
	api      api
	proxies  []netip.Prefix
	now      func() time.Time
	log      *slog.Logger
	sessions *sessions
	pages    map[string]*template.Template
	handler  http.Handler

	streams   chan struct{} // a place for each live page
	closed    chan struct{}
	closeOnce sync.Once
}

//go:embed pages
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// New console. It fails only when its own pages are broken.
func New(c Config) (*Console, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	pages, err := parsePages(c.Now)
	if err != nil {
		return nil, fmt.Errorf("reading the console's pages: %w", err)
	}
	assets, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("reading the console's files: %w", err)
	}
	console := &Console{
		api: api{c.API}, proxies: c.Proxies, now: c.Now, log: c.Log, sessions: newSessions(c.Now), pages: pages,
		streams: make(chan struct{}, maxStreams), closed: make(chan struct{}),
	}
	console.handler = guarded(console.routes(assets))
	return console, nil
}

// Close ends the live pages' streams. It returns at once, and may be called
// twice.
func (c *Console) Close() { c.closeOnce.Do(func() { close(c.closed) }) }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

func (c *Console) routes(assets fs.FS) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /console/login", c.showLogin)
	mux.HandleFunc("POST /console/login", c.login)
	for pattern, show := range map[string]page{
		"GET /console/{$}":           c.overview,
		"GET /console/nodes":         c.nodes,
		"GET /console/releases":      c.releases,
		"GET /console/accounts":      c.accounts,
		"GET /console/accounts/{id}": c.account,
		"GET /console/webhooks":      c.webhooks,
		"GET /console/webhooks/{id}": c.deliveries,
		"GET /console/events/{id}":   c.event,
		"GET /console/audit":         c.audit,
		"GET /console/tokens":        c.tokens,
	} {
		mux.HandleFunc(pattern, c.inSession(show))
	}
	mux.HandleFunc("GET /console/live", c.inSession(c.live))
	for pattern, act := range map[string]form{
		"POST /console/logout":                 c.logout,
		"POST /console/accounts":               c.createAccount,
		"POST /console/accounts/{id}/mode":     c.setMode,
		"POST /console/accounts/{id}/keys":     c.createKey,
		"POST /console/keys/{id}/rotate":       c.rotateKey,
		"POST /console/keys/{id}/revoke":       c.revokeKey,
		"POST /console/deliveries/{id}/retry":  c.retryDelivery,
		"POST /console/webhooks/{id}/recover":  c.recoverDeliveries,
		"POST /console/webhooks/{id}/secret":   c.rotateSecret,
		"POST /console/rollouts":               c.promote,
		"POST /console/releases/{id}/rollback": c.rollBack,
		"POST /console/nodes":                  c.enrolNode,
		"POST /console/nodes/{id}/revoke":      c.revokeNode,
		"POST /console/tokens":                 c.createToken,
		"POST /console/tokens/{id}/revoke":     c.revokeToken,
	} {
		mux.HandleFunc(pattern, c.inSession(c.submitted(act)))
	}
	mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, nil, http.StatusNotFound, "There is no such page.")
	})
	return mux
}

// maxForm bounds a form, in bytes.
const maxForm = 64 << 10

// policy lets a page load what the console itself serves, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guarded sets the headers that every answer has, and lets no other site send
// forms.
func guarded(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}
