// Package network reads the networks of allowlists, and maps a client's address to the network
// that limits count it under.
package network

import "net/netip"

// Parse reads a network or an address. Bits of the host are cleared; an
// IPv4 address that is written as IPv6 counts as the IPv4 that it is.
func Parse(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), a.Zone() == ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// Own returns the network that usually belongs to one client: an IPv4 address, or a /64
// of IPv6. Of no address it returns no network.
func Own(a netip.Addr) netip.Prefix { return prefix(a, 32, 64) }

// Site returns the network that usually belongs to one organization: a /24 of IPv4, or a
// /48 of IPv6. Of no address it returns no network.
func Site(a netip.Addr) netip.Prefix { return prefix(a, 24, 48) }

func prefix(a netip.Addr, v4, v6 int) netip.Prefix {
	bits := v6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = v4
	}
	p, _ := a.Prefix(bits) // fails of no address alone
	return p
}

// Text returns a network as text, of a single address without its length.
func Text(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
