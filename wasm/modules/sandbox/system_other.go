//go:build !wasip1

package main

import (
	"io"
	"net"
	"os"
)

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

func input(f *os.File) (io.Reader, error) { return f, nil }
