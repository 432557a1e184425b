package listener

import (
	"log/slog"
	"net"
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
