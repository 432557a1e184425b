package pipeline

import "net/netip"

// allowed reports whether the client is in one of the networks. An empty list
// allows every client. A malformed network allows no client, and a malformed
// client address is not allowed.
func allowed(networks []string, client string) bool {
	if len(networks) == 0 {
		return true
	}
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, n := range networks {
		if prefix, err := netip.ParsePrefix(n); err == nil && prefix.Contains(addr) {
			return true
		}
	}
	return false
}
