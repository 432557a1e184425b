package main

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/stealthrocket/net/wasip1"
)

func listen(address string) (net.Listener, error) { return wasip1.Listen("tcp", address) }

// input returns f in non-blocking mode, so that waiting for input does not block
// the program's only thread.
func input(f *os.File) (io.Reader, error) {
	if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
		return nil, err
	}
	return os.NewFile(f.Fd(), "standard input"), nil
}
