package pipeline

import "net/netip"

// allowed tells whether the client is in one of the networks; an empty list
// allows everybody. A network that cannot be read allows nobody, and so does a
// client address that cannot.
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
