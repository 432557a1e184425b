package db

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"partneredge/store/central/centraltest"
)

// TestConnectionsEndWithTheirServer: what a connection waits for is bounded, should the
// machine at its other end lose its power.
func TestConnectionsEndWithTheirServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for name, of := range map[string]struct{ level, option, want int }{
			"unacknowledged, ms":          {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 20_000},
			"keepalives":                  {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			"silence before the first, s": {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
			"between two, s":              {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			"how many":                    {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
		} {
			if got, err := unix.GetsockoptInt(int(fd), of.level, of.option); err != nil || got != of.want {
				t.Errorf("%s: %d, %v, want %d", name, got, err, of.want)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// unanswered returns an address that answers no attempt to connect, as that of a machine
// without power.
func unanswered(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
	waits, err := net.Dial("tcp", address) // which is all that its queue has room for
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = waits.Close() })
	return address
}

// TestNextServerInTime: the machine of the first server has lost its power, and who has two
// seconds for a query, as an origin's probe has, gets its answer from the second.
func TestNextServerInTime(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(centraltest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	address.Host = unanswered(t) + "," + address.Host
	query := address.Query()
	query.Set("target_session_attrs", "read-write")
	address.RawQuery = query.Encode()
	d := new(DB)
	if err := d.connect(address.String(), false); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.closePools() }()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); { // a busy machine may need more time for one
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = d.read.PingContext(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Error(err)
}
