package node

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"partneredge/wasm/httpfront"
)

// isProxy returns a function that reports whether an address is one of the proxies.
func isProxy(proxies []netip.Prefix) func(netip.Addr) bool {
	return func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
}

// clientOf returns a function that finds the true address of a request's client:
// the peer, or, if the peer is one of the proxies, the last address in
// X-Forwarded-For that is none. Anybody may have written what stands before it.
func clientOf(proxies []netip.Prefix) func(*http.Request) netip.Addr {
	proxy := isProxy(proxies)
	return func(r *http.Request) netip.Addr {
		client := httpfront.Peer(r)
		hops := r.Header["X-Forwarded-For"]
		for i := len(hops) - 1; i >= 0 && proxy(client); i-- {
			rest := hops[i]
			for rest != "" && proxy(client) {
				cut := strings.LastIndexByte(rest, ',')
				hop, ok := parseHop(rest[cut+1:])
				if !ok {
					return client // a proxy that says nothing sensible is the client itself
				}
				client, rest = hop, rest[:max(cut, 0)]
			}
		}
		return client
	}
}

// parseHop reads an address, with or without brackets and a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	a, err := netip.ParseAddr(s)
	if err != nil {
		var ap netip.AddrPort
		ap, err = netip.ParseAddrPort(s)
		a = ap.Addr()
	}
	if bare, ok := strings.CutPrefix(s, "["); ok && err != nil {
		if bare, ok = strings.CutSuffix(bare, "]"); ok {
			a, err = netip.ParseAddr(bare)
		}
	}
	return a.Unmap().WithZone(""), err == nil
}
