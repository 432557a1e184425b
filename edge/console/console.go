// Package console serves the origin's pages for people: the state of the regions,
// nodes, releases, accounts and their keys, subscriptions and deliveries, tokens,
// the audit log.
//
// The console holds nothing but sessions. It reads and changes records through
// the admin API, with the token of whoever has logged in. Roles, validation and
// the audit log are therefore those of the API, and a revoked token ends its
// sessions. The pages work without scripts; a small one keeps the overview and
// the page of releases live.
package console

import (
	"crypto/rand"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/logging"
	"partneredge/edge/places"
	"partneredge/edge/proxies"
)

// Path is the path below which the console is served.
const Path = "/console/"

// Config of the console.
type Config struct {
	// API serves the admin API, from /admin/v1/ on. Required.
	API http.Handler
	// Proxies are those before the console, whose X-Forwarded-Proto is believed, so that
	// cookies are Secure behind HTTPS, and whose X-Forwarded-For is. Default: none.
	Proxies proxies.Set
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Log gets neither tokens nor keys. nil: no log.
	Log *slog.Logger
}

// Console is an http.Handler for the paths below Path. The caller ends it with
// Close.
type Console struct {
	cfg      Config
	limited  *logging.Limiter // of what anybody can bring about
	sessions *sessions
	pages    map[string]*template.Template
	handler  http.Handler

	streams   places.Places[string] // of live pages, by who has logged in
	anyCSRF   string                // stands for a session's token in what is rendered for many
	closed    chan struct{}
	closeOnce sync.Once
}

//go:embed pages
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// New returns a console. It fails only when its own pages are broken.
func New(c Config) (*Console, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	templates, err := parsePages(c.Now)
	if err != nil {
		return nil, fmt.Errorf("reading the console's pages: %w", err)
	}
	assets, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("reading the console's files: %w", err)
	}
	console := &Console{
		cfg: c, limited: logging.New(c.Log), sessions: newSessions(c.Now), pages: templates,
		streams: places.Places[string]{All: maxStreams, Each: streamsOfOne}, closed: make(chan struct{}),
		anyCSRF: rand.Text(),
	}
	console.handler = protect(console.routes(assets))
	return console, nil
}

// Close ends the streams of the live pages. It returns at once, and may be called
// twice.
func (c *Console) Close() { c.closeOnce.Do(func() { close(c.closed) }) }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// routes returns the handler of all paths.
func (c *Console) routes(assets fs.FS) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /console/login", c.showLogin)
	mux.HandleFunc("POST /console/login", c.login)
	mux.HandleFunc("GET /console/live", c.inSession(c.live(liveOverview)))
	mux.HandleFunc("GET /console/releases/live", c.inSession(c.live(liveReleases)))
	mux.HandleFunc("GET /console/search", c.inSession(c.search))
	mux.HandleFunc("POST /console/accounts/{id}/export", c.inSession(c.exportAccount))
	for pattern, t := range map[string]table{
		"GET /console/deliveries.csv":          deliveriesTable,
		"GET /console/requests.csv":            requestsTable,
		"GET /console/accounts/{id}/leads.csv": leadsTable,
	} {
		mux.HandleFunc(pattern, c.inSession(c.download(t)))
	}
	for pattern, p := range pages() {
		mux.HandleFunc(pattern, c.inSession(c.showPage(p)))
	}
	for pattern, f := range c.forms() {
		mux.HandleFunc(pattern, c.inSession(c.submit(f)))
	}
	mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, c.sessions.find(r, true), http.StatusNotFound, "There is no such page.")
	})
	return mux
}

// pages returns the pages by the patterns of their paths.
func pages() map[string]page {
	return map[string]page{
		"GET /console/{$}":             overview,
		"GET /console/nodes":           list[adminapi.Node]("/nodes", "nodes", "Nodes"),
		"GET /console/releases":        releases,
		"GET /console/accounts":        list[adminapi.Account]("/accounts", "accounts", "Accounts"),
		"GET /console/accounts/{id}":   account,
		"GET /console/keys/{id}":       key,
		"GET /console/webhooks":        webhooks,
		"GET /console/webhooks/{id}":   webhookLog,
		"GET /console/events/{id}":     eventLog,
		"GET /console/deliveries":      allDeliveries,
		"GET /console/deliveries/{id}": delivery,
		"GET /console/quarantine":      listIn[adminapi.QuarantinedLead]("/quarantine", "quarantine", "Quarantine"),
		"GET /console/quarantine/{id}": quarantined,
		"GET /console/lockouts":        lockouts,
		"GET /console/requests":        requests,
		"GET /console/audit":           listIn[adminapi.Audit]("/audit", "audit", "Audit log"),
		"GET /console/tokens":          list[adminapi.Token]("/tokens", "tokens", "Tokens"),
	}
}

// forms returns the forms by the patterns of the paths that they are sent to.
func (c *Console) forms() map[string]form {
	return map[string]form{
		"POST /console/logout":                  c.logout,
		"POST /console/accounts":                createAccount,
		"POST /console/accounts/{id}/mode":      setMode,
		"POST /console/accounts/{id}/keys":      createKey,
		"POST /console/keys/{id}/rotate":        rotateKey,
		"POST /console/keys/{id}/revoke":        revokeKey,
		"POST /console/deliveries/{id}/retry":   act("/deliveries/{id}/retry", "Queued again.", webhookOf),
		"POST /console/webhooks/{id}/recover":   c.recoverDeliveries,
		"POST /console/webhooks/{id}/secret":    rotateSecret,
		"POST /console/webhooks/{id}/revoke":    act("/webhooks/{id}/revoke", "Subscription revoked: nothing goes there any more.", webhookOf),
		"POST /console/quarantine/{id}/release": release,
		"POST /console/quarantine/{id}/discard": discard,
		"POST /console/rollouts":                promote,
		"POST /console/releases/{id}/rollback":  act("/releases/{id}/rollback", "Rolling back: the nodes run again what they ran before.", section("releases")),
		"POST /console/nodes":                   enrolNode,
		"POST /console/nodes/{id}/revoke":       act("/nodes/{id}/revoke", "Node revoked: its connection is ended.", section("nodes")),
		"POST /console/lockouts":                clearLockouts,
		"POST /console/tokens":                  c.createToken,
		"POST /console/tokens/{id}/revoke":      act("/tokens/{id}/revoke", "Token revoked, with its sessions.", section("tokens")),
	}
}

// maxForm bounds a form, in bytes. The longest text of consent, sent escaped, fits.
const maxForm = 256 << 10

// policy lets a page load what the console itself serves, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect sets the headers that every answer has, and refuses forms that another
// site sends.
func protect(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "same-origin") // no-referrer would make a form's Origin null over plain HTTP
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}
