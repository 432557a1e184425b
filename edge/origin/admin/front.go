package admin

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/hosts"
	"partneredge/store/central"
	"partneredge/store/central/audit"
)

// mux serves the routes.
func (a *api) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range a.all() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			ctx, span := a.Tracer.Serve(req.Context(), r.pattern, req.Header)
			defer span.End()
			if span != nil {
				req = req.WithContext(ctx)
			}
			answer, err := r.serve(req)
			if err != nil {
				if problemOf(err).Kind == kindInternal {
					span.Fail("not answered")
				}
				a.refuse(w, req, err)
				return
			}
			switch body := answer.body.(type) {
			case stream:
				span.End() // a stream goes on for as long as somebody listens
				a.writeStream(w, req, body)
				return
			case lines:
				a.writeLines(w, req, body)
				return
			}
			write(w, answer.status, answer.body)
		})
	}
	return mux
}

// handler returns the handler of the whole listener.
func (a *api) handler() http.Handler {
	top := http.NewServeMux()
	top.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	top.HandleFunc("GET /readyz", a.readyz)
	top.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			if _, err := a.actor(r); err != nil {
				a.refuse(w, r, err)
				return
			}
		}
		a.Metrics.ServeHTTP(w, r)
	})
	top.HandleFunc("/", a.authenticated)
	return a.withMetrics(a.withConsole(a.withRegistry(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path { // which a mux would redirect
			a.authenticated(w, r)
			return
		}
		top.ServeHTTP(w, r)
	}))))
}

// authenticated serves the routes to who has a token of the role that they ask
// for.
func (a *api) authenticated(w http.ResponseWriter, r *http.Request) {
	actor, err := a.actor(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	// The mux would answer in plain text where it has no route.
	h, pattern := a.routes.Handler(r)
	r.Pattern = pattern // for metrics: what serves it gets a copy
	switch {
	case path.Clean(r.URL.Path) != r.URL.Path:
		a.refuse(w, r, &problem{Kind: kindNotFound})
	case pattern == "":
		probe := &probe{header: make(http.Header)}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			a.refuse(w, r, &problem{Kind: kindMethod, Detail: "allowed: " + probe.header.Get("Allow")})
			return
		}
		a.refuse(w, r, &problem{Kind: kindNotFound})
	case !actor.Role.May(least(pattern)):
		a.refuse(w, r, &problem{Kind: kindForbidden, Reason: "role_too_low", Detail: "this needs the role " + string(least(pattern))})
	default:
		a.routes.ServeHTTP(w, r.WithContext(audit.WithActor(r.Context(), actor)))
	}
}

// probe takes an answer's status and header and forgets its body.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// fromHere reports whether the request comes from this machine, not through a proxy
// on it, and names the machine by an address or as localhost. A page of elsewhere
// that a browser here shows can have its own name resolve to this machine.
func fromHere(r *http.Request) bool {
	for _, passed := range []string{"Forwarded", "X-Forwarded-For", "Via"} {
		if r.Header[passed] != nil {
			return false
		}
	}
	return peer(r).IsLoopback() && hosts.IsLocal(r.Host)
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err := a.DB.ChangesSince(ctx, central.Position{}, 1)
	switch {
	case err != nil:
		a.Log.Warn("not ready", "err", err)
		write(w, http.StatusServiceUnavailable, map[string]string{"status": "database unavailable"})
	case !a.Ready():
		write(w, http.StatusServiceUnavailable, map[string]string{"status": "nats unavailable"})
	default:
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	}
}

// eventStream is the type of an answer that goes on for as long as a page is
// open: that time is no request's.
const eventStream = "text/event-stream"

// withMetrics counts and logs every request, and turns a panic into a 500. It logs
// neither bodies nor headers.
func (a *api) withMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if fault := recover(); fault != nil {
				if fault == http.ErrAbortHandler { //nolint:errorlint // the server's own sentinel
					panic(fault)
				}
				a.Log.Error("admin request panicked", "method", r.Method, "fault", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
				if !seen.wrote {
					write(seen, http.StatusInternalServerError, adminapi.Problem{Kind: kindInternal})
				}
			}
			route := r.Pattern
			if route == "" || route == "/" {
				route = "none"
			}
			took := time.Since(began)
			if !strings.HasPrefix(seen.Header().Get("Content-Type"), eventStream) {
				a.Observe(route, seen.status, took)
			}
			a.Log.Debug("admin request", "route", route, "status", seen.status, "took", took)
		}()
		next.ServeHTTP(seen, r)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	w.status, w.wrote = status, true
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse answers with the problem that err is.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Kind == kindUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="admin"`)
	}
	switch p.Kind {
	case kindInternal:
		a.Log.Error("admin request failed", "method", r.Method, "route", r.Pattern, "err", err)
		w.Header().Set("Retry-After", "1")
	case kindLimited:
		setRetryAfter(w.Header(), p.retryAfter)
	}
	write(w, p.status(), p.body())
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := encode(body)
	if err != nil { // a body of ours that cannot be written is a fault of ours
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
