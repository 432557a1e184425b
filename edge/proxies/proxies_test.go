package proxies

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClient(t *testing.T) {
	t.Parallel()
	proxies := Set{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:aaaa::/48")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"nothing forwarded", "192.0.2.1:80", nil, "192.0.2.1"},
		{"a peer nobody trusts", "192.0.2.1:80", []string{"203.0.113.9"}, "192.0.2.1"},
		{"a proxy", "10.1.2.3:80", []string{"203.0.113.9"}, "203.0.113.9"},
		{"a proxy that says nothing", "10.1.2.3:80", nil, "10.1.2.3"},
		{"what the client made up", "10.1.2.3:80", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
		{"two proxies", "10.1.2.3:80", []string{"203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		{"two headers", "10.1.2.3:80", []string{"198.51.100.1, 203.0.113.9", "10.9.9.9"}, "203.0.113.9"},
		{"all proxies", "10.1.2.3:80", []string{"10.7.7.7,10.8.8.8"}, "10.7.7.7"},
		{"nonsense", "10.1.2.3:80", []string{"203.0.113.9, unknown"}, "10.1.2.3"},
		{"nonsense behind a proxy", "10.1.2.3:80", []string{"unknown, 10.9.9.9"}, "10.9.9.9"},
		{"an empty header", "10.1.2.3:80", []string{""}, "10.1.2.3"},
		{"an empty element", "10.1.2.3:80", []string{"203.0.113.9,"}, "10.1.2.3"},
		{"with a port", "10.1.2.3:80", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"IPv6", "10.1.2.3:80", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets", "10.1.2.3:80", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 with a port", "10.1.2.3:80", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv6 with a zone", "10.1.2.3:80", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv4 mapped into IPv6", "[::ffff:10.1.2.3]:80", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"a proxy by IPv6", "[2001:db8:aaaa::7]:80", []string{"203.0.113.9"}, "203.0.113.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.forwarded
			if got := proxies.Client(r); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.2.3.4", "1.2.3.4, 10.0.0.1", "[::1]:80,", "a,b,c", ",,,", "::ffff:1.2.3.4%x"} {
		f.Add(s)
	}
	client := Set{netip.MustParsePrefix("10.0.0.0/8")}.Client
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header["X-Forwarded-For"] = []string{header}
		if a := client(r); !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			t.Errorf("%q gives %v", header, a)
		}
		r.RemoteAddr = "192.0.2.1:80"
		if a := client(r); a != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%q is believed of a peer nobody trusts", header)
		}
	})
}
