package db

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged bounds by unacknowledgedMost what a connection of TCP waits for
// (tcp(7), TCP_USER_TIMEOUT). Keepalives are not sent while data is unacknowledged.
func limitUnacknowledged(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var refused error
	err := conn.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedMost.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return refused
}
