package fake

import (
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"

	"partneredge/wasm/targeturl"
)

// PublicOnly is a webhook guard that needs no network. An address literal must
// be public by the lists of code.dny.dev/ssrf. A name counts as public unless
// it ends in .invalid, which never resolves (RFC 6761).
func PublicOnly(host string) (reason string) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if strings.HasSuffix(host, ".invalid") {
			return targeturl.DNSFailure
		}
		return ""
	}
	platform := netip.AddrFrom4([4]byte{168, 63, 129, 16}) // a cloud's own services, on a public address
	if addr == platform || ssrf.New(ssrf.WithAnyPort()).SafeAddr(addr) != nil {
		return targeturl.HostNotPublic
	}
	return ""
}
