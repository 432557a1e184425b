package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/scripts/bench/harness"
)

// receiver is the partners' side: one HTTPS server, every path an endpoint.
// Those under /hang never answer.
type receiver struct {
	server *httptest.Server
	caFile string
	ends   chan struct{}
	count  atomic.Int64 // requests that were answered
	hung   atomic.Int64 // and that were not
	record atomic.Pointer[arrivals]
}

// arrivals are when the deliveries of each event came, by the event's id.
type arrivals struct {
	mu sync.Mutex
	at map[string][]time.Time
}

// recorded records what comes to endpoints that answer, until end is called.
func (r *receiver) recorded() (a *arrivals, end func()) {
	a = &arrivals{at: map[string][]time.Time{}}
	r.record.Store(a)
	return a, func() { r.record.Store(nil) }
}

func (a *arrivals) add(event string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[event] = append(a.at[event], at)
}

// missing counts the events of which nothing came.
func (a *arrivals) missing(events map[string]bool) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for event := range events {
		if len(a.at[event]) == 0 {
			n++
		}
	}
	return n
}

func newReceiver(dir string) (*receiver, error) {
	certificate, err := harness.NewCertificate()
	if err != nil {
		return nil, err
	}
	r := &receiver{caFile: filepath.Join(dir, "ca.pem"), ends: make(chan struct{})}
	r.server = httptest.NewUnstartedServer(r)
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.EnableHTTP2 = true
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	r.server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return r, os.WriteFile(r.caFile, ca, 0o600)
}

func (r *receiver) close() {
	close(r.ends)
	r.server.Close()
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
		a.add(q.Header.Get("X-Svc-Event-Id"), at)
	}
	r.count.Add(1)
}
