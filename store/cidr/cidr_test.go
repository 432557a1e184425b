package cidr_test

import (
	"net/netip"
	"testing"

	"partneredge/store/cidr"
)

func TestNetworks(t *testing.T) {
	for _, tt := range []struct{ address, own, site string }{
		{"192.0.2.7", "192.0.2.7", "192.0.2.0/24"},
		{"::ffff:192.0.2.7", "192.0.2.7", "192.0.2.0/24"},
		{"2001:db8:1:2:3::4", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"},
	} {
		a := netip.MustParseAddr(tt.address)
		if own, site := cidr.Text(cidr.Own(a)), cidr.Text(cidr.Site(a)); own != tt.own || site != tt.site {
			t.Errorf("%s counts in %s and %s, want %s and %s", tt.address, own, site, tt.own, tt.site)
		}
	}
	if p := cidr.Own(netip.Addr{}); p.IsValid() {
		t.Errorf("no address counts in %v", p)
	}
}
