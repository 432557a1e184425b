package node

import (
	"context"
	"net/http"
	"net/netip"

	"partneredge/edge/proxies"
	"partneredge/wasm/httpfront"
)

// lockedOut is the code of the refusal of a client that has presented too many wrong keys.
const lockedOut = "too_many_failed_attempts"

type scarceKey struct{}

// withScarce returns the context of a listener's requests, by which they learn whether
// its places for connections are scarce.
func withScarce(ctx context.Context, scarce func() bool) context.Context {
	return context.WithValue(ctx, scarceKey{}, scarce)
}

// hangsUp returns a function that reports whether a refusal ends its client's connection:
// that of a client who is locked out, and every 401 while places for connections are
// scarce. A proxy's connection stays, since it carries the requests of others too.
func hangsUp(proxy func(netip.Addr) bool) func(*http.Request, int, httpfront.Refusal) bool {
	return func(r *http.Request, status int, refusal httpfront.Refusal) bool {
		if status != http.StatusUnauthorized && refusal.Code != lockedOut {
			return false
		}
		if proxy(proxies.Peer(r)) {
			return false
		}
		scarce, ok := r.Context().Value(scarceKey{}).(func() bool)
		return refusal.Code == lockedOut || ok && scarce()
	}
}
