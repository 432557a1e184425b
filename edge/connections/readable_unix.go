//go:build unix

package connections

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// canPark reports whether awaitReadable works.
const canPark = true

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
