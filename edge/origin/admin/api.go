// Package admin implements the admin API's routes, for callers that package listener has
// authenticated: operators, and the services that feed accounts.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"time"

	"partneredge/edge/origin/admin/input"
	"partneredge/edge/origin/replication"
	"partneredge/edge/origin/rollout"
	"partneredge/edge/places"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
)

// Config of the API. Every field is required unless it says otherwise.
type Config struct {
	DB       *central.DB
	Nodes    *replication.Presence
	Rollouts *rollout.Controller
	// Credentials makes those of a new node.
	Credentials func(nodeID, region string) (credentials, publicKey string, err error)
	// Regions makes credentials for the NATS servers of regions.
	Regions Regions
	// Lockouts asks every enrolled node about its lockouts.
	Lockouts func(context.Context, wire.LockoutsRequest) []replication.NodeAnswer[wire.LockoutsReply]
	// Requests asks every enrolled node of a region, "": of all, about requests that it
	// answered, and calls each with one answer after the other.
	Requests func(ctx context.Context, region string, req wire.RequestsRequest, each func(replication.NodeAnswer[wire.RequestsReply]))
	// Tail returns the tries of this process's sender as they end, until end is
	// called.
	Tail func() (tries <-chan store.Tried, end func())

	Log *slog.Logger
	Now func() time.Time
	// Tracer makes spans of requests. nil: none.
	Tracer *tracing.Tracer
}

// api serves the routes.
type api struct {
	Config
	recheck             func(*http.Request) error
	retries, recoveries *throttle // by subscription

	lists      places.Places[string] // that are being read, by actor
	streams    places.Places[string] // by actor
	asking     chan struct{}         // holds one for each call that asks nodes about requests
	inspecting chan struct{}         // holds one while a release is read
	heads      sync.Map              // adminapi.Rollout without nodes, of all but the newest, by fleet.RolloutRevision
	running    context.Context       // ends when the listener is to

	routes *http.ServeMux
}

// New returns the handler of the API. A request's context names its actor
// (audit.WithActor). Streams end with running, and when recheck says that their
// request would not be let in any more.
func New(running context.Context, cfg Config, recheck func(*http.Request) error) http.Handler {
	a := &api{
		Config: cfg, running: running, recheck: recheck,
		retries:    newThrottle(time.Second, 60, cfg.Now),
		recoveries: newThrottle(10*time.Second, 6, cfg.Now),
		lists:      places.Places[string]{All: listsMost, Each: listsOfOne},
		streams:    places.Places[string]{All: maxStreams, Each: streamsOfOne},
		asking:     make(chan struct{}, maxAsking),
		inspecting: make(chan struct{}, 1),
	}
	a.routes = a.mux()
	return a
}

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
				if problemOf(err).Kind == input.KindInternal {
					span.Fail("not answered")
				}
				a.refuse(w, req, err)
				return
			}
			switch body := answer.body.(type) {
			case placed:
				span.End() // a stream goes on for as long as somebody listens
				a.writeStream(w, req, body)
				return
			case lines:
				a.writeLines(w, req, body)
				return
			case slow:
				a.writeSlow(w, req, answer.status, body)
				return
			}
			WriteJSON(w, answer.status, answer.body)
		})
	}
	return mux
}

// ServeHTTP serves the routes to whom the request's context names as the actor
// (audit.WithActor), if that one has the role that the route asks for.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	actor, _ := audit.ActorOf(r.Context()) // without one, no role
	// The mux would answer in plain text where it has no route.
	h, pattern := a.routes.Handler(r)
	r.Pattern = pattern // for metrics: what serves it gets a copy
	switch {
	case path.Clean(r.URL.Path) != r.URL.Path:
		a.refuse(w, r, &input.Problem{Kind: input.KindNotFound})
	case pattern == "":
		probe := httptest.NewRecorder()
		h.ServeHTTP(probe, r)
		if probe.Code == http.StatusMethodNotAllowed {
			allowed := probe.Header().Get("Allow")
			w.Header().Set("Allow", allowed)
			a.refuse(w, r, &input.Problem{Kind: input.KindMethod, Detail: "allowed: " + allowed})
			return
		}
		a.refuse(w, r, &input.Problem{Kind: input.KindNotFound})
	case !actor.Role.May(least(pattern)):
		a.refuse(w, r, &input.Problem{Kind: input.KindForbidden, Reason: "role_too_low", Detail: "this needs the role " + string(least(pattern))})
	default:
		a.routes.ServeHTTP(w, r)
	}
}

// refuse answers with the problem that err is.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	switch p.Kind {
	case input.KindInternal:
		if r.Context().Err() == nil { // else whoever asked is gone
			a.Log.Error("admin request failed", "method", r.Method, "route", r.Pattern, "err", err)
		}
		w.Header().Set("Retry-After", "1")
	case input.KindLimited:
		SetRetryAfter(w.Header(), p.RetryAfter)
	}
	WriteJSON(w, p.Status(), p.Body())
}

// WriteJSON answers with JSON.
func WriteJSON(w http.ResponseWriter, status int, body any) {
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

// problemOf maps an error to what is answered. An error that is no problem and
// of no kind of store's is the origin's own fault, and not described.
func problemOf(err error) *input.Problem {
	switch p, ok := errors.AsType[*input.Problem](err); {
	case ok:
		return p
	case errors.Is(err, store.ErrNotFound):
		return &input.Problem{Kind: input.KindNotFound}
	case errors.Is(err, idempotency.ErrKey):
		return &input.Problem{Kind: input.KindIdempotency, Detail: said(err, store.ErrConflict)}
	case errors.Is(err, store.ErrConflict):
		return &input.Problem{Kind: input.KindConflict, Detail: said(err, store.ErrConflict)}
	case errors.Is(err, store.ErrInvalid):
		return &input.Problem{Kind: "invalid_value", Detail: said(err, store.ErrInvalid)}
	default:
		return &input.Problem{Kind: input.KindInternal}
	}
}

// said returns the text of a store's error after its kind: it names fields and
// states, never values. What a database said is for the log alone.
func said(err, kind error) string {
	_, after, found := strings.Cut(err.Error(), kind.Error()+": ")
	if !found || strings.ContainsRune(after, '\n') || db.FromDatabase(err) {
		return ""
	}
	return after
}

// encode returns v as JSON. It leaves <, > and & as they are, which would else be
// six bytes each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
