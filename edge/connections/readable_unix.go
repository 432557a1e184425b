//go:build unix

package connections

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// canPark reports whether awaitReadable works.
const canPark = true

// writeNow writes what the system takes at once. What it does not take is an error.
func writeNow(c syscall.Conn, p []byte) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var refused error
	err = raw.Write(func(fd uintptr) bool {
		n, refused = unix.Write(int(fd), p)
		return true
	})
	if err = errors.Join(err, refused); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

// awaitReadable returns when something can be read, or the other side has closed. An
// error means that the read deadline has passed or the connection was closed here.
func awaitReadable(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if !errors.Is(err, unix.EINTR) {
				return n > 0 || err != nil
			}
		}
	})
}
