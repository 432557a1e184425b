package connections

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// from dials address from another address of this machine.
func from(t *testing.T, client, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("NOT TESTED: bounds of connections, since %s is no address here: %v", client, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestConnectionsAreBounded holds that who has all the connections that an address or
// a network may have gets no more, until it closes one, and that others do.
func TestConnectionsAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := netip.MustParseAddr("127.9.0.1")
	bounded := Bound(ln, Bounds{All: 100, Address: 2, Network: 3}, func(a netip.Addr) bool { return a == proxy }, slog.New(slog.DiscardHandler))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(bounded) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	served := func(client string) (net.Conn, bool) {
		t.Helper()
		conn := from(t, client, ln.Addr().String())
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			return conn, false
		}
		n, err := conn.Read(make([]byte, 512))
		return conn, n > 0 && err == nil
	}
	want := func(client string, yes bool) net.Conn {
		t.Helper()
		conn, got := served(client)
		if got != yes {
			t.Errorf("%s is served: %v, want %v", client, got, yes)
		}
		return conn
	}
	first := want("127.1.0.1", true)
	want("127.1.0.1", true)
	want("127.1.0.1", false) // the address has two
	want("127.1.0.2", true)
	want("127.1.0.3", false) // the network has three
	want("127.2.0.1", true)
	for range 5 {
		want(proxy.String(), true)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		if _, got := served("127.1.0.3"); got {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a connection that was closed is not free")
		}
	}
	want("127.1.0.1", false) // that place is taken again
}

// TestPlacesBecomeScarce holds that places are scarce while connections have half of
// them, those of proxies counted, and those that wait or were closed at once not.
func TestPlacesBecomeScarce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := netip.MustParseAddr("127.9.0.1")
	bounded := Bound(ln, Bounds{All: 6, Address: 1, Network: 6}, func(a netip.Addr) bool { return a == proxy }, slog.New(slog.DiscardHandler))
	defer bounded.Close()
	accepted := make(chan net.Conn, 6)
	go func() {
		for {
			conn, err := bounded.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	var open []net.Conn
	for i, tt := range []struct {
		from   string
		scarce bool
	}{{"127.1.0.1", false}, {proxy.String(), false}, {"127.1.0.2", true}, {proxy.String(), true}} {
		if i == 2 { // the address has its one
			if n, err := from(t, "127.1.0.1", ln.Addr().String()).Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("a second connection read %d bytes, %v", n, err)
			}
			if bounded.Scarce() {
				t.Error("a connection that was closed at once has a place")
			}
		}
		from(t, tt.from, ln.Addr().String())
		open = append(open, <-accepted)
		if bounded.Scarce() != tt.scarce {
			t.Errorf("with %d connections of 6 places are scarce: %v", i+1, !tt.scarce)
		}
	}
	for i, scarce := range []bool{true, false} {
		if err := open[i].Close(); err != nil {
			t.Error(err)
		}
		if bounded.Scarce() != scarce {
			t.Errorf("with %d connections of 6 places are scarce: %v", 3-i, !scarce)
		}
	}
}

// failingListener fails some times before it accepts anything.
type failingListener struct {
	net.Listener
	failures int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENOMEM)}
	}
	return l.Listener.Accept()
}

// TestAcceptGoesOn holds that connections are accepted after an error that net/http takes for
// the end of its listener, and that one line says so.
func TestAcceptGoesOn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	bounded := Bound(&failingListener{ln, 3}, manyConnections, func(netip.Addr) bool { return false }, slog.New(slog.NewTextHandler(&log, nil)))
	l, server := serveParking(t, bounded, Parking{IdleTimeout: time.Hour})
	conn, in := dialParking(t, l)
	wantAnswer(t, conn, in, get, "GET false 1")
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), syscall.ENOMEM.Error()) {
		t.Errorf("logged %q", &log)
	}
}
