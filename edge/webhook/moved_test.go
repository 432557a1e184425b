package webhook

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
)

// TestEndpointMovesWhileInUse moves an endpoint to another address while its connection is
// in use. What is sent once the connection has its age goes to the new address, and what is
// under way at the old one is not cut.
func TestEndpointMovesWhileInUse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: a second address of loopback, which only Linux has unasked")
	}
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			const host = "hook.example.com" // the certificate of httptest names it
			answer := make(chan struct{})
			var tries, dials, closed atomic.Int32
			before := listenAt(t, "127.0.0.1:0", protocol, func(http.ResponseWriter, *http.Request) {
				if tries.Add(1) == 2 {
					<-answer
				}
			})
			before.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					dials.Add(1)
				case http.StateClosed:
					closed.Add(1)
				}
			}
			before.StartTLS()
			_, port, err := net.SplitHostPort(before.Listener.Addr().String())
			must(t, err)
			var moved atomic.Int32
			listenAt(t, net.JoinHostPort("127.0.0.2", port), protocol, func(http.ResponseWriter, *http.Request) {
				moved.Add(1)
			}).StartTLS()
			dns := newDNS(t)
			dns.set(host, "127.0.0.1")
			f := newFixture(t, t.TempDir()+"/origin.db", Config{
				CAFile: caFile(t, &receiver{Server: before}), connectionAge: time.Nanosecond,
				Guard: NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute, Allow: loopback}),
				// A try may be under way for as long as a slow machine needs.
				Timeout: time.Hour, SlowAfter: time.Hour, Lease: 3 * time.Hour,
			})
			f.subscribe("https://" + net.JoinHostPort(host, port) + "/hook")
			f.state(f.fire(), store.StateDelivered)
			held := f.fire()
			until(t, "a try is under way", func() bool { return tries.Load() == 2 })
			dns.set(host, "127.0.0.2")
			f.state(f.fire(), store.StateDelivered)
			close(answer)
			f.state(held, store.StateDelivered)
			f.state(f.fire(), store.StateDelivered)
			if tries.Load() != 2 || moved.Load() != 2 {
				t.Errorf("%d tries at the old address and %d at the new one, want 2 of each", tries.Load(), moved.Load())
			}
			if protocol == "http/1.1" { // idle ones of HTTP/2 are left to IdleConnTimeout
				until(t, "the old connections are closed", func() bool { return closed.Load() == dials.Load() })
			}
		})
	}
}

// listenAt returns an endpoint that listens at an address and is not started yet.
func listenAt(t *testing.T, address, protocol string, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	server := httptest.NewUnstartedServer(answer)
	must(t, server.Listener.Close())
	server.Listener = listener
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{protocol}}
	t.Cleanup(server.Close)
	return server
}
