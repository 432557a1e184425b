package listener

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/hosts"
	"partneredge/edge/origin/admin"
	"partneredge/edge/proxies"
	"partneredge/store/central"
	"partneredge/store/central/audit"
)

// handler returns the handler of the whole listener.
func (s *Server) handler() http.Handler {
	top := http.NewServeMux()
	top.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		admin.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	top.HandleFunc("GET /readyz", s.readyz)
	top.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := s.mayScrape(r); err != nil {
			s.refuse(w, r, err)
			return
		}
		s.Metrics.ServeHTTP(w, r)
	})
	top.HandleFunc("/", s.authenticated)
	return s.withMetrics(s.withConsole(s.withRegistry(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path { // which a mux would redirect
			s.authenticated(w, r)
			return
		}
		top.ServeHTTP(w, r)
	}))))
}

// mayScrape returns why a request may not read the metrics, nil if it may. Metrics have to say
// that the database is away. So when it does not tell whose a token is within two seconds, one
// that was right before from the same network will do.
func (s *Server) mayScrape(r *http.Request) error {
	if fromHere(r) {
		return nil
	}
	sent, err := bearer(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err = s.holder(r.WithContext(ctx), sent)
	if _, refused := errors.AsType[*refusal](err); !refused && s.attempts.WasRight(s.Proxies.Client(r), sha256.Sum256([]byte(sent))) {
		return nil
	}
	return err
}

// authenticated serves the admin API to who has a token.
func (s *Server) authenticated(w http.ResponseWriter, r *http.Request) {
	actor, err := s.actor(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	*r = *r.WithContext(audit.WithActor(r.Context(), actor)) // in place: metrics read its Pattern
	s.api.ServeHTTP(w, r)
}

// refuse answers a request whose actor is not known.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		s.limited.Error("admin", "admin request failed", "method", r.Method, "err", err)
		w.Header().Set("Retry-After", "1")
		admin.WriteJSON(w, http.StatusInternalServerError, adminapi.Problem{Kind: "internal_error"})
	case refused.retryAfter > 0:
		admin.SetRetryAfter(w.Header(), refused.retryAfter)
		admin.WriteJSON(w, refused.status(), adminapi.Problem{Kind: "rate_limited", Reason: refused.reason, Detail: "too many wrong tokens from this address; try again later"})
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="admin"`)
		admin.WriteJSON(w, refused.status(), adminapi.Problem{Kind: "unauthorized", Reason: refused.reason})
	}
}

// fromHere reports whether the request comes from this machine, not through a proxy
// on it, and names the machine by an address or as localhost. A page of elsewhere
// that a browser here shows can make its own name resolve to this machine.
func fromHere(r *http.Request) bool {
	for _, passed := range []string{"Forwarded", "X-Forwarded-For", "Via"} {
		if r.Header[passed] != nil {
			return false
		}
	}
	return proxies.Peer(r).IsLoopback() && hosts.IsLocal(r.Host)
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if obstacle := s.Obstacle(r.Context()); obstacle != "" {
		admin.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": obstacle})
		return
	}
	admin.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// Obstacle returns what keeps the origin from its work, "" if nothing does. The database has
// two seconds to answer.
func (s *Server) Obstacle(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := s.db.ChangesSince(ctx, central.Position{}, 1); err != nil {
		s.limited.Warn("not ready", "not ready", "err", err)
		return "database unavailable"
	}
	if err := s.db.Writable(ctx); err != nil {
		s.limited.Warn("not ready", "not ready", "err", err)
		return "database takes no writes: is its disk full?"
	}
	if !s.Ready() {
		return "nats unavailable"
	}
	return ""
}

// eventStream is the type of an answer that goes on for as long as a page is
// open: that time is no request's.
const eventStream = "text/event-stream"

// withMetrics counts and logs every request, and turns a panic into a 500. It logs
// neither bodies nor headers.
func (s *Server) withMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if fault := recover(); fault != nil {
				if fault == http.ErrAbortHandler { //nolint:errorlint // the server's own sentinel
					panic(fault)
				}
				s.log.Error("admin request panicked", "method", r.Method, "fault", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
				if !seen.wrote {
					admin.WriteJSON(seen, http.StatusInternalServerError, adminapi.Problem{Kind: "internal_error"})
				}
			}
			route := r.Pattern
			if route == "" || route == "/" {
				route = "none"
			}
			took := time.Since(began)
			if !strings.HasPrefix(seen.Header().Get("Content-Type"), eventStream) {
				s.Observe(route, seen.status, took)
			}
			s.log.Debug("admin request", "route", route, "status", seen.status, "took", took)
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
