package node

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"partneredge/edge/connections"
)

// TestOldTLSIsRefused offers the partner API the versions of TLS one by one; the
// last alone is accepted.
func TestOldTLSIsRefused(t *testing.T) {
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(n.URL(), "https://"),
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if err == nil {
			_ = conn.Close()
		}
		if want := version == tls.VersionTLS13; (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %t", tls.VersionName(version), err, want)
		}
	}
}

// TestRequestsOverHTTP2AreBounded: a client has no more requests under way over HTTP/2
// than it may have connections, though one connection carries many.
func TestRequestsOverHTTP2AreBounded(t *testing.T) {
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	c.connections = connections.Bounds{All: 9, Address: 1, Network: 9}
	n := startNode(t, c)
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}, // less than the reference has
	}
	t.Cleanup(transport.CloseIdleConnections)
	get := func(path string) (*http.Response, error) {
		return transport.RoundTrip(must(http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+path, http.NoBody))(t))
	}
	unread := must(get("/docs"))(t)
	if resp, err := get("/healthz"); err == nil {
		t.Errorf("beside an answer that is not read a request is answered %d, want it reset", resp.StatusCode)
		_ = resp.Body.Close()
	}
	if err := unread.Body.Close(); err != nil {
		t.Error(err)
	}
	soon(t, "the place is free again", func() bool {
		resp, err := get("/healthz")
		return err == nil && resp.Body.Close() == nil
	})
}
