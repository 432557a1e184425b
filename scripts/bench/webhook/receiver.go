package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	certificate, err := newCertificate()
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

// newCertificate returns a certificate for 127.0.0.1 that is its own authority. That
// of httptest has an RSA key: the handshakes would take most of the bare loop's time.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
