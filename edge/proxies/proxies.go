// Package proxies tells the client of an HTTP request from the proxies before this process.
package proxies

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Set is the networks of the proxies that are trusted. Its zero value trusts none.
type Set []netip.Prefix

// Has reports whether an address is that of a proxy.
func (s Set) Has(a netip.Addr) bool {
	return slices.ContainsFunc(s, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Peer returns the address at the other end of a request's connection, without port and zone,
// and not in the form of IPv4 mapped into IPv6; an invalid one where there is none.
func Peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap().WithZone("")
}

// Client returns the true address of a request's client: the peer, or, if the peer is a proxy,
// the last address in X-Forwarded-For that is none. Anybody may have written what stands
// before it.
func (s Set) Client(r *http.Request) netip.Addr {
	client := Peer(r)
	hops := r.Header["X-Forwarded-For"]
	for i := len(hops) - 1; i >= 0 && s.Has(client); i-- {
		rest := hops[i]
		for rest != "" && s.Has(client) {
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
