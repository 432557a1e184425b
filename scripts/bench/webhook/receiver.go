package main

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"partneredge/scripts/bench/hooks"
)

// receiver is the partners' side: one HTTPS server, every path an endpoint.
// Those under /hang never answer.
type receiver struct {
	*hooks.Endpoints
	ends   chan struct{}
	hung   atomic.Int64 // requests that were not answered
	record atomic.Pointer[hooks.Arrivals]
}

// recorded records what comes to endpoints that answer, until end is called.
func (r *receiver) recorded() (a *hooks.Arrivals, end func()) {
	a = new(hooks.Arrivals)
	r.record.Store(a)
	return a, func() { r.record.Store(nil) }
}

func newReceiver(dir string) (r *receiver, err error) {
	r = &receiver{ends: make(chan struct{})}
	r.Endpoints, err = hooks.Serve(dir, r)
	return r, err
}

func (r *receiver) close() {
	close(r.ends)
	r.Close()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if strings.HasPrefix(q.URL.Path, "/hang") {
		r.hung.Add(1)
		select {
		case <-q.Context().Done():
		case <-r.ends:
		}
		return
	}
	at := time.Now()
	_, _ = io.Copy(io.Discard, q.Body)
	if a := r.record.Load(); a != nil {
		a.Add(q, at)
	}
}
