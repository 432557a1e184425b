package db

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
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
