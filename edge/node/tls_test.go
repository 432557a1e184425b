package node

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"partneredge/edge/certificate"
	"partneredge/edge/certificate/certificatetest"
	"partneredge/edge/connections"
	"partneredge/wasm/httpfront"
)

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	certificatetest.OnlyTLS13(t, strings.TrimPrefix(n.URL(), "https://"), roots)
}

// TestRequestsOverHTTP2AreBounded: a client has no more requests under way over HTTP/2
// than it may have connections, though one connection carries many.
func TestRequestsOverHTTP2AreBounded(t *testing.T) {
	t.Parallel()
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
	eventually(t, "the place is free again", func() bool {
		resp, err := get("/healthz")
		return err == nil && resp.Body.Close() == nil
	})
}

// TestBodiesOverHTTP2AreBounded reads what a client is told that it may send of bodies
// before any is read: no more in a stream than the largest body, and twice that in all.
func TestBodiesOverHTTP2AreBounded(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	conn := must(tls.Dial("tcp", strings.TrimPrefix(n.URL(), "https://"), &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}))(t)
	defer conn.Close()
	must(conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")))(t) // and empty SETTINGS
	const initial = 1<<16 - 1
	stream, all := uint32(initial), uint32(initial)
	for range 3 { // SETTINGS, WINDOW_UPDATE, and SETTINGS acknowledged
		head := make([]byte, 9) // RFC 9113, section 4.1
		must(io.ReadFull(conn, head))(t)
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		must(io.ReadFull(conn, payload))(t)
		switch head[3] {
		case 4:
			for ; len(payload) >= 6; payload = payload[6:] {
				if binary.BigEndian.Uint16(payload) == 4 { // SETTINGS_INITIAL_WINDOW_SIZE
					stream = binary.BigEndian.Uint32(payload[2:])
				}
			}
		case 8:
			all += binary.BigEndian.Uint32(payload)
		}
	}
	if stream != httpfront.MaxBody || all != 2*httpfront.MaxBody {
		t.Errorf("a client may send %d bytes in a stream and %d in all, want %d and twice that", stream, all, httpfront.MaxBody)
	}
}

// TestExpiryByACME: a host that gets no certificate counts as expired, and the log has one line
// about it. No other name does either.
func TestExpiryByACME(t *testing.T) {
	t.Parallel()
	authority := httptest.NewServer(http.NotFoundHandler())
	defer authority.Close()
	var log bytes.Buffer // written before the handshake ends
	c := Config{
		ACME: certificate.ACMEConfig{Hosts: []string{"eu.example.com"}, Dir: t.TempDir(), URL: authority.URL},
		Log:  slog.New(slog.NewTextHandler(&log, nil)),
	}
	var expiry certificate.Expiry
	tlsConfig := must(c.tls(&expiry))(t)
	for _, host := range []string{"", "us.example.com", "eu.example.com"} {
		client, server := net.Pipe()
		go func() {
			_ = tls.Client(client, &tls.Config{ServerName: host, InsecureSkipVerify: true}).HandshakeContext(t.Context())
			_ = client.Close()
		}()
		if err := tls.Server(server, tlsConfig).HandshakeContext(t.Context()); err == nil {
			t.Errorf("%q got a certificate", host)
		}
		if got := expiry.Seconds(); (got > 0) != (host == "eu.example.com") {
			t.Errorf("after %q: expires at %v", host, got)
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "host=eu.example.com") || !strings.Contains(got, "404 Not Found") {
		t.Errorf("the log is %q, want one line with the host and the authority's answer", got)
	}
}

// TestExpiryOfFiles: the time is that of the files, also before anybody connects.
func TestExpiryOfFiles(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	c.TLSCert, c.TLSKey = certificatetest.Write(t, t.TempDir())
	var expiry certificate.Expiry
	must(c.tls(&expiry))(t)
	cert, key := certificatetest.PairUntil(t, 2, "127.0.0.1", time.Unix(2e9, 0))
	for file, text := range map[string][]byte{c.TLSCert: cert, c.TLSKey: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, later := range []bool{false, true} {
		if later {
			now = now.Add(time.Second)
		}
		if got := expiry.Seconds(); (got == 2e9) != later || got == 0 {
			t.Errorf("expires at %v; a second later: %t", got, later)
		}
	}
}
