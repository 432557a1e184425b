package network

import (
	"net/netip"
	"testing"
)

// FuzzParse: a network that is taken is in its plain form, holds its own
// address, and reads the same again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"192.0.2.7", "10.1.2.3/8", "2001:db8::1/32", "::ffff:192.0.2.9", "::ffff:10.0.0.0/104", "::ffff:0:0/95", "fe80::1%lo", "0.0.0.0/0", "::/0", "10.0.0.0/33", "", "/8", "1.2.3.4/", "127.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := Parse(s)
		if !ok {
			return
		}
		if p != p.Masked() || !p.Contains(p.Addr()) || p.Addr().Is4In6() || p.Addr().Zone() != "" {
			t.Fatalf("%q gave %v", s, p)
		}
		if again, ok := Parse(p.String()); !ok || again != p {
			t.Fatalf("%q gave %v, and that %v", s, p, again)
		}
		if a, err := netip.ParseAddr(s); err == nil && !p.Contains(a.Unmap()) {
			t.Fatalf("%q gave %v, which leaves it out", s, p)
		}
	})
}

func TestNetworks(t *testing.T) {
	for _, tt := range []struct{ address, own, site string }{
		{"192.0.2.7", "192.0.2.7", "192.0.2.0/24"},
		{"::ffff:192.0.2.7", "192.0.2.7", "192.0.2.0/24"},
		{"2001:db8:1:2:3::4", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"},
	} {
		a := netip.MustParseAddr(tt.address)
		if own, site := Text(Own(a)), Text(Site(a)); own != tt.own || site != tt.site {
			t.Errorf("%s counts in %s and %s, want %s and %s", tt.address, own, site, tt.own, tt.site)
		}
	}
	if p := Own(netip.Addr{}); p.IsValid() {
		t.Errorf("no address counts in %v", p)
	}
}
