package main

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/stealthrocket/net/wasip1"
)

func listen(address string) (net.Listener, error) { return wasip1.Listen("tcp", address) }

// input makes reads of f wait without everything else waiting: there is only one
// thread.
func input(f *os.File) (io.Reader, error) {
	if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
		return nil, err
	}
	return os.NewFile(f.Fd(), "standard input"), nil
}
