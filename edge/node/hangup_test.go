package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/connections"
	"partneredge/edge/proxies"
	"partneredge/store"
	"partneredge/wasm/httpfront"
)

// TestWhoIsHungUpOn lists whose connection a refusal ends.
func TestWhoIsHungUpOn(t *testing.T) {
	t.Parallel()
	const client, proxy = "198.51.100.7:5000", "[::ffff:192.0.2.1]:5000"
	hangs := hangsUp(proxies.Set{netip.MustParsePrefix("192.0.2.0/24")}.Has)
	for _, tt := range []struct {
		peer   string
		status int
		code   string
		scarce bool
		want   bool
	}{
		{client, 403, "too_many_failed_attempts", false, true},
		{client, 403, "too_many_failed_attempts", true, true},
		{proxy, 403, "too_many_failed_attempts", true, false},
		{client, 401, "unauthorized", false, false},
		{client, 401, "unauthorized", true, true},
		{proxy, 401, "unauthorized", true, false},
		{client, 403, "insufficient_scope", true, false},
		{client, 404, "not_found", true, false},
		{client, 429, "too_many_requests", true, false},
		{client, 500, "internal_error", true, false},
	} {
		r, err := http.NewRequestWithContext(withScarce(t.Context(), func() bool { return tt.scarce }), "GET", me, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = tt.peer
		if got := hangs(r, tt.status, httpfront.Refusal{Code: tt.code}); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// watchedConn notes that the server has ended it.
type watchedConn struct {
	net.Conn
	ended *atomic.Bool
}

// Read implements net.Conn.
func (c watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

// Close implements net.Conn. A client of TLS may close the connection once it reads that the
// server has nothing more to say, and not read on to its end.
func (c watchedConn) Close() error {
	c.ended.Store(true)
	return c.Conn.Close()
}

// oneConn is a client that dials anew only once its connection has ended. It speaks HTTP/1
// by itself: where net/http learns late that a request was sent, it gives the connection up.
type oneConn struct {
	protocol int // HTTP's major version
	http2    *http.Transport
	http1    net.Conn
	reader   *bufio.Reader // of http1
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	roots    *x509.CertPool // nil: no TLS
	dialled  atomic.Int32
	last     atomic.Pointer[atomic.Bool] // whether the last connection has ended
}

// newOneConn returns a client that trusts roots.
func newOneConn(t *testing.T, protocol int, roots *x509.CertPool) *oneConn {
	c := &oneConn{protocol: protocol, roots: roots}
	c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ended := new(atomic.Bool)
		c.last.Store(ended)
		c.dialled.Add(1)
		return watchedConn{conn, ended}, nil
	}
	c.http2 = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: c.dial}
	t.Cleanup(c.close)
	return c
}

// ended reports whether the last connection has.
func (c *oneConn) ended() bool { return c.last.Load().Load() }

// close ends the connection.
func (c *oneConn) close() {
	c.http2.CloseIdleConnections()
	if c.http1 != nil {
		_ = c.http1.Close()
	}
}

// roundTrip sends a request.
func (c *oneConn) roundTrip(req *http.Request) (*http.Response, error) {
	if c.protocol == 2 {
		return c.http2.RoundTrip(req)
	}
	if c.http1 == nil || c.ended() {
		c.close()
		conn, err := c.dial(req.Context(), "tcp", req.URL.Host)
		if err != nil {
			return nil, err
		}
		if c.roots != nil {
			conn = tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: req.URL.Hostname()})
		}
		c.http1, c.reader = conn, bufio.NewReader(conn)
	}
	if err := c.http1.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return nil, err
	}
	if err := req.Write(c.http1); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.reader, req)
}

// ask returns the status of an answer and whether it says that the connection ends. Over
// HTTP/1 it then waits for that end.
func (c *oneConn) ask(t *testing.T, n *Node, key string) (status int, closes bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", n.URL()+me, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.ProtoMajor != c.protocol {
		t.Fatalf("answered by %s", resp.Proto)
	}
	if resp.Close {
		if _, err := c.reader.ReadByte(); err != io.EOF {
			t.Fatalf("after the last answer of a connection: %v", err)
		}
		c.last.Load().Store(true) // over TLS it need not be closed yet
	}
	return resp.StatusCode, resp.Close
}

// protocols that a node speaks.
var protocols = []struct {
	name    string
	version int
	tls     bool
}{{"HTTP/1.1", 1, false}, {"HTTP/1.1 over TLS", 1, true}, {"HTTP/2", 2, true}}

// TestLockedOutClientIsHungUpOn: wrong keys leave the connection open until they lock
// the client out. From then on each answer ends its connection.
func TestLockedOutClientIsHungUpOn(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			c := config(t, newOrigin(t))
			var roots *x509.CertPool
			if protocol.tls {
				roots = selfSigned(t, &c)
			}
			n := startNode(t, c)
			client := newOneConn(t, protocol.version, roots)
			for range 20 {
				if status, closes := client.ask(t, n, "svc_live_wrong"); status != 401 || closes {
					t.Fatalf("a wrong key: %d, closes %v", status, closes)
				}
			}
			if client.dialled.Load() != 1 || client.ended() {
				t.Errorf("%d connections for 20 wrong keys, ended %v", client.dialled.Load(), client.ended())
			}
			for range 3 {
				status, closes := client.ask(t, n, "svc_live_wrong")
				if status != 403 || closes != (protocol.version == 1) { // HTTP/2 has no such header
					t.Fatalf("locked out: %d, closes %v", status, closes)
				}
				eventually(t, "the connection ends", client.ended)
			}
			if client.dialled.Load() != 3 {
				t.Errorf("%d connections for 3 answers, the first on one that was there", client.dialled.Load())
			}
		})
	}
}

// TestLockedOutClientReadsWhy: the answer arrives and the server ends the connection,
// though the client sends a body that nobody wants and asks for no end.
func TestLockedOutClientReadsWhy(t *testing.T) {
	t.Parallel()
	n := startNode(t, config(t, newOrigin(t)))
	for range 20 {
		ask(t, n, "GET", me, "svc_live_wrong", "").want(t, 401)
	}
	for range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat(" ", httpfront.MaxBody)
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", newLead, len(body), body); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(idleTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn) // up to the end
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 403 ") || !strings.Contains(string(all), "ip_locked_out") {
			t.Fatalf("%q, %v", all, err)
		}
		_ = conn.Close()
	}
}

// TestLockedOutBehindAProxy: the connection of a proxy stays, since others use it too.
func TestLockedOutBehindAProxy(t *testing.T) {
	t.Parallel()
	c := config(t, newOrigin(t))
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	n := startNode(t, c)
	for i := range 25 {
		want := 401
		if i >= 20 {
			want = 403
		}
		if a := ask(t, n, "GET", me, "svc_live_wrong", "").want(t, want); a.header.Get("Connection") != "" {
			t.Fatalf("refused with %v", a.header)
		}
	}
}

// TestRefusalsHangUp: once half of the places for connections are taken a 401 ends its
// connection, until they are free again. Who is answered stays.
func TestRefusalsHangUp(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			o := newOrigin(t)
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key := o.addKey("key_1", nil)
			c := config(t, o)
			var roots *x509.CertPool
			if protocol.tls {
				roots = selfSigned(t, &c)
			}
			c.connections = connections.Bounds{All: 8, Address: 8, Network: 8}
			n := startNode(t, c)
			stranger, partner := newOneConn(t, protocol.version, roots), newOneConn(t, protocol.version, roots)
			others := []*oneConn{newOneConn(t, protocol.version, roots), newOneConn(t, protocol.version, roots)}
			answered := func(clients ...*oneConn) {
				t.Helper()
				for _, client := range clients {
					if status, closes := client.ask(t, n, key); status != 200 || closes {
						t.Fatalf("a partner is answered %d, closes %v", status, closes)
					}
				}
			}
			for range 5 {
				answered(partner)
				if status, closes := stranger.ask(t, n, ""); status != 401 || closes {
					t.Fatalf("a request without a key: %d, closes %v", status, closes)
				}
			}
			if stranger.dialled.Load() != 1 || stranger.ended() {
				t.Errorf("%d connections while there are places, ended %v", stranger.dialled.Load(), stranger.ended())
			}

			answered(others...) // with the two before that makes half
			status, closes := stranger.ask(t, n, "")
			if status != 401 || closes != (protocol.version == 1) { // HTTP/2 has no such header
				t.Errorf("a request without a key: %d, closes %v", status, closes)
			}
			eventually(t, "the connection ends", stranger.ended)
			answered(partner)
			if partner.dialled.Load() != 1 || partner.ended() {
				t.Errorf("a partner is on connection %d, ended %v", partner.dialled.Load(), partner.ended())
			}

			for _, client := range others {
				client.close()
			}
			eventually(t, "a 401 leaves its connection open", func() bool {
				before := stranger.dialled.Load()
				_, closes := stranger.ask(t, n, "")
				return !closes && stranger.dialled.Load() == before && !stranger.ended()
			})
		})
	}
}
