package listener

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/connections"
	"partneredge/edge/origin/admin"
)

// TestConnectionsHaveACeiling: an address that has all its connections to the admin
// listener gets no more until it closes one.
func TestConnectionsHaveACeiling(t *testing.T) {
	defer func(bounds connections.Bounds) { adminConnections = bounds }(adminConnections)
	if b := adminConnections; b.Address >= b.All || b.Network >= b.All || b.All > 4096 {
		t.Errorf("one address or network can have all connections: %+v", b)
	}
	adminConnections = connections.Bounds{All: 8, Address: 3, Network: 6}
	s, err := Start(Config{
		Addr: "127.0.0.1:0", TokenFile: filepath.Join(t.TempDir(), "token"), Observe: func(string, int, time.Duration) {},
		Admin: admin.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context())
	served := func() (net.Conn, bool) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
			return conn, false
		}
		answer := make([]byte, 12)
		_, err = conn.Read(answer)
		return conn, err == nil && string(answer) == "HTTP/1.1 200"
	}
	var first net.Conn
	for i := range 3 {
		conn, ok := served()
		if !ok {
			t.Fatalf("connection %d is not served", i+1)
		}
		first = conn
	}
	for range 3 {
		if _, ok := served(); ok {
			t.Error("a connection beyond the bound is served")
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		if _, ok := served(); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a connection that was closed is not free")
		}
	}
}

// TestRequestsHaveACeiling: an address has no more requests under way over HTTP/2 than it
// may have connections, though one connection carries many.
func TestRequestsHaveACeiling(t *testing.T) {
	defer func(bounds connections.Bounds) { adminConnections = bounds }(adminConnections)
	adminConnections = connections.Bounds{All: 8, Address: 1, Network: 6}
	other := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer other.Close()
	began, end := make(chan struct{}, 1), make(chan struct{})
	s, err := Start(Config{
		Addr: "127.0.0.1:0", TokenFile: filepath.Join(t.TempDir(), "token"),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &other.TLS.Certificates[0], nil },
		Observe: func(string, int, time.Duration) {
			began <- struct{}{}
			<-end
		},
		Admin: admin.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context())
	client := other.Client()
	transport := client.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2 = true
	defer transport.CloseIdleConnections()
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // should a request beyond the bound wait
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	first := make(chan error, 1)
	go func() { first <- get() }()
	<-began
	if err := get(); err == nil {
		t.Error("a request beyond the bound is answered")
	}
	close(end)
	if err := <-first; err != nil {
		t.Errorf("the first request: %v", err)
	}
}
