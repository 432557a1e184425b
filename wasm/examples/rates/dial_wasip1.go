package main

import (
	"context"
	"net"

	"github.com/stealthrocket/net/wasip1"
)

// dial connects by the host's sockets, to what the manifest's allow_dial names.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return wasip1.DialContext(ctx, network, address)
}
