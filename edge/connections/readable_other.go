//go:build !unix

package connections

import (
	"errors"
	"syscall"
)

// canPark reports whether awaitReadable works.
const canPark = false

func awaitReadable(syscall.Conn) error { return errors.ErrUnsupported }

func writeNow(syscall.Conn, []byte) (int, error) { return 0, errors.ErrUnsupported }
