//go:build !wasip1

package main

import (
	"context"
	"net"
)

// dial connects as any program does, so that the rest can be vetted and tested without
// a sandbox.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}
