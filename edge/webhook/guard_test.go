package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/wasm/targeturl"
)

// addresses that a guard meets, and whether it lets them through.
var addresses = []struct {
	addr   string
	public bool
	what   string
}{
	{"8.8.8.8", true, "public"},
	{"1.1.1.1", true, "public"},
	{"93.184.215.14", true, "public"},
	{"172.15.255.255", true, "just below 172.16/12"},
	{"172.32.0.0", true, "just above 172.16/12"},
	{"100.63.255.255", true, "just below carrier NAT"},
	{"100.128.0.0", true, "just above carrier NAT"},
	{"168.63.129.15", true, "beside Azure's wire server"},
	{"2606:4700:4700::1111", true, "public"},
	{"2a00:1450:4001:81c::200e", true, "public"},

	{"0.0.0.0", false, "this host"},
	{"0.1.2.3", false, "this network"},
	{"127.0.0.1", false, "loopback"},
	{"127.255.255.254", false, "loopback"},
	{"10.0.0.1", false, "private"},
	{"172.16.0.1", false, "private"},
	{"172.31.255.255", false, "private"},
	{"192.168.1.1", false, "private"},
	{"100.64.0.1", false, "carrier NAT"},
	{"100.127.255.255", false, "carrier NAT"},
	{"100.100.100.200", false, "metadata, Alibaba"},
	{"169.254.0.1", false, "link-local"},
	{"169.254.169.254", false, "metadata, AWS, GCP, Azure, DigitalOcean"},
	{"169.254.170.2", false, "metadata, ECS tasks"},
	{"169.254.170.23", false, "metadata, EKS pods"},
	{"169.254.169.123", false, "AWS time"},
	{"168.63.129.16", false, "Azure's wire server"},
	{"192.0.0.192", false, "metadata, Oracle"},
	{"192.0.0.8", false, "protocol assignments"},
	{"192.0.2.1", false, "documentation"},
	{"198.51.100.1", false, "documentation"},
	{"203.0.113.1", false, "documentation"},
	{"192.88.99.1", false, "6to4 relay"},
	{"192.31.196.1", false, "AS112"},
	{"192.52.193.1", false, "AMT"},
	{"192.175.48.1", false, "AS112"},
	{"198.18.0.1", false, "benchmark"},
	{"198.19.255.255", false, "benchmark"},
	{"224.0.0.1", false, "multicast"},
	{"239.255.255.250", false, "multicast"},
	{"240.0.0.1", false, "reserved"},
	{"255.255.255.255", false, "broadcast"},

	{"::", false, "unspecified"},
	{"::1", false, "loopback"},
	{"::7f00:1", false, "compatible, loopback"},
	{"::808:808", false, "compatible, public"},
	{"::ffff:127.0.0.1", false, "mapped, loopback"},
	{"::ffff:169.254.169.254", false, "mapped, metadata"},
	{"::ffff:8.8.8.8", false, "mapped, public"},
	{"::ffff:0:127.0.0.1", false, "translated (SIIT)"},
	{"64:ff9b::7f00:1", false, "NAT64, loopback"},
	{"64:ff9b::808:808", false, "NAT64, public"},
	{"64:ff9b:1::a00:1", false, "NAT64, local use"},
	{"100::1", false, "discard"},
	{"2001::1", false, "Teredo"},
	{"2001:0:4136:e378:8000:63bf:3fff:fdd2", false, "Teredo"},
	{"2001:2::1", false, "benchmark"},
	{"2001:10::1", false, "ORCHID"},
	{"2001:20::1", false, "ORCHIDv2"},
	{"2001:db8::1", false, "documentation"},
	{"3fff::1", false, "documentation"},
	{"2002:7f00:1::1", false, "6to4, loopback"},
	{"2002:808:808::1", false, "6to4, public"},
	{"2620:4f:8000::1", false, "AS112"},
	{"5f00::1", false, "segment routing"},
	{"fc00::1", false, "unique-local"},
	{"fd00:ec2::254", false, "metadata, AWS"},
	{"fd20:ce::254", false, "metadata, GCP"},
	{"fd00:42::42", false, "metadata, Scaleway"},
	{"fe80::1", false, "link-local"},
	{"fe80::1%lo", false, "link-local with a zone"},
	{"2606:4700:4700::1111%lo", false, "public with a zone"},
	{"::1%lo", false, "loopback with a zone"},
	{"fec0::1", false, "site-local"},
	{"ff02::1", false, "multicast"},
	{"ff0e::1", false, "multicast, global"},
	{"4000::1", false, "not handed out"},
}

func TestAddresses(t *testing.T) {
	g := NewGuard(GuardConfig{})
	for _, a := range addresses {
		addr := netip.MustParseAddr(a.addr)
		want := targeturl.HostNotPublic
		if a.public {
			want = ""
		}
		if got := g.judge(netip.AddrPortFrom(addr, 443)); got != want {
			t.Errorf("%s (%s): %q, want %q", a.addr, a.what, got, want)
		}
		network := "tcp6"
		if addr.Is4() {
			network = "tcp4"
		}
		err := g.Control(network, netip.AddrPortFrom(addr, 443).String(), nil)
		if (err == nil) != a.public || (err != nil && !errors.Is(err, store.ErrRefused)) {
			t.Errorf("dial %s (%s): %v", a.addr, a.what, err)
		}
		if err := g.CheckAddr(addr); (err == nil) != a.public || (err != nil && !errors.Is(err, store.ErrRefused)) {
			t.Errorf("address %s (%s): %v", a.addr, a.what, err)
		}
	}
}

// A name is judged by its addresses: the corpus again, behind DNS.
func TestResolvedAddresses(t *testing.T) {
	dns := newDNS(t)
	g := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute})
	for _, a := range addresses {
		addr := netip.MustParseAddr(a.addr)
		if addr.Zone() != "" || addr.Is4In6() {
			continue // DNS has no zones; an AAAA of a mapped address dials as its IPv4
		}
		dns.set("hook.example.com", a.addr)
		want := targeturl.HostNotPublic
		if a.public {
			want = ""
		}
		if got, err := g.checkHost(t.Context(), "hook.example.com", 443); err != nil || got != want {
			t.Errorf("%s (%s): %q %v, want %q", a.addr, a.what, got, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	dns := newDNS(t)
	dns.set("public.example.com", "8.8.8.8", "2606:4700:4700::1111")
	dns.set("mixed.example.com", "8.8.8.8", "10.0.0.1")
	dns.set("mixed6.example.com", "8.8.8.8", "fd00:ec2::254")
	dns.set("mapped.example.com", "::ffff:127.0.0.1")
	dns.set("none.example.com")
	dns.silence("silent.example.com")
	g := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute})
	for _, test := range []struct {
		host string
		port uint16
		want string
	}{
		{"public.example.com", 443, ""},
		{"public.example.com", 1024, ""},
		{"public.example.com", 65535, ""},
		{"public.example.com", 80, targeturl.PortDenied},
		{"public.example.com", 22, targeturl.PortDenied},
		{"public.example.com", 1023, targeturl.PortDenied},
		{"mixed.example.com", 443, targeturl.HostNotPublic},
		{"mixed6.example.com", 443, targeturl.HostNotPublic},
		{"mapped.example.com", 443, targeturl.HostNotPublic},
		{"none.example.com", 443, targeturl.DNSFailure},
		{"unknown.example.com", 443, targeturl.DNSFailure},
	} {
		if got, err := g.checkHost(t.Context(), test.host, test.port); err != nil || got != test.want {
			t.Errorf("%s:%d: %q %v, want %q", test.host, test.port, got, err, test.want)
		}
	}

	impatient := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: 200 * time.Millisecond})
	if got, err := impatient.checkHost(t.Context(), "silent.example.com", 443); err != nil || got != targeturl.DNSFailure {
		t.Errorf("silent: %q %v, want %q", got, err, targeturl.DNSFailure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.checkHost(ctx, "silent.example.com", 443); !errors.Is(err, context.Canceled) {
		t.Errorf("caller gone: %v", err)
	}
}

func TestAllow(t *testing.T) {
	g := NewGuard(GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
	for addr, want := range map[string]string{
		"127.0.0.1:8443":          "",
		"127.0.0.1:443":           "",
		"127.0.0.1:80":            targeturl.PortDenied,
		"[::1]:8443":              "",
		"[::1%lo]:8443":           targeturl.HostNotPublic,
		"10.0.0.1:8443":           targeturl.HostNotPublic,
		"[::ffff:127.0.0.1]:8443": targeturl.HostNotPublic,
	} {
		if got := g.judge(netip.MustParseAddrPort(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// TestAllowNAT64 allows the addresses by which a NAT64 gateway reaches IPv4: those of what
// is allowed over IPv4 as well.
func TestAllowNAT64(t *testing.T) {
	for _, prefix := range []string{"64:ff9b::/96", "64:ff9b::a00:0/104", "::/0"} {
		g := NewGuard(GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix(prefix), netip.MustParsePrefix("127.0.0.0/30")}})
		for addr, want := range map[string]bool{
			"64:ff9b::808:808":     prefix != "64:ff9b::a00:0/104",
			"64:ff9b::7f00:1":      prefix != "64:ff9b::a00:0/104", // loopback, allowed over IPv4
			"64:ff9b::7f00:9":      false,
			"64:ff9b::a00:1":       false,
			"64:ff9b::a9fe:a9fe":   false,
			"64:ff9b::a83f:8110":   false, // Azure's wire server
			"64:ff9b:1::a00:1":     prefix == "::/0",
			"fd00::1":              prefix == "::/0",
			"2606:4700:4700::1111": true,
			"127.0.0.1":            true,
		} {
			if got := g.CheckAddr(netip.MustParseAddr(addr)) == nil; got != want {
				t.Errorf("with %s, %s is let through: %t, want %t", prefix, addr, got, want)
			}
		}
	}
}

// TestGuardDefaults names the defaults of GuardConfig. A time that is negative is none.
func TestGuardDefaults(t *testing.T) {
	for _, timeout := range []time.Duration{0, -1, -time.Hour} {
		g := NewGuard(GuardConfig{LookupTimeout: timeout})
		if g.timeout != 3*time.Second || !g.resolver.PreferGo {
			t.Errorf("time-out %v: looks names up for %v, by Go's own resolver: %t", timeout, g.timeout, g.resolver.PreferGo)
		}
	}
}

// A name that was public when it was registered and is loopback when it is
// dialled is not dialled, nor is any other network than TCP.
func TestRebinding(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	dns := newDNS(t)
	g := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute})
	dns.set("hook.example.com", "8.8.8.8")
	if reason, err := g.checkHost(t.Context(), "hook.example.com", 443); reason != "" || err != nil {
		t.Fatalf("at registration: %q %v", reason, err)
	}
	for _, private := range []string{"127.0.0.1", "::1"} {
		dns.set("hook.example.com", private)
		conn, err := g.Dial(time.Minute)(t.Context(), "tcp", net.JoinHostPort("hook.example.com", port))
		if err == nil {
			conn.Close()
		}
		if refusal(err) != targeturl.HostNotPublic {
			t.Errorf("dial to %s: %v", private, err)
		}
	}
	if err := g.Control("udp4", "8.8.8.8:443", nil); refusal(err) == "" {
		t.Errorf("udp: %v", err)
	}
	if err := g.Control("tcp4", "nonsense", nil); refusal(err) == "" {
		t.Errorf("nonsense: %v", err)
	}
}

// TestDialsLookUpAbsoluteNames holds that a delivery looks up the name that Check judged,
// and none that a search domain of the machine makes of it.
func TestDialsLookUpAbsoluteNames(t *testing.T) {
	g := NewGuard(GuardConfig{Resolver: newDNS(t).resolver()})
	_, err := g.Dial(time.Minute)(t.Context(), "tcp", "nowhere.example.com:443")
	if failed, ok := errors.AsType[*net.DNSError](err); !ok || failed.Name != "nowhere.example.com." {
		t.Errorf("dial of a name that there is not: %v", err)
	}
	if _, err := g.Dial(time.Minute)(t.Context(), "tcp", "[::1]:443"); refusal(err) != targeturl.HostNotPublic {
		t.Errorf("dial of a literal address: %v", err)
	}
}

// Check reads the URL first; its own rules are tested where they are.
func TestCheck(t *testing.T) {
	dns := newDNS(t)
	dns.set("hook.example.com", "8.8.8.8")
	dns.set("inside.example.com", "192.168.7.7")
	g := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute})
	loopback := NewGuard(GuardConfig{Resolver: dns.resolver(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for _, test := range []struct{ url, want string }{
		{"https://hook.example.com/a?b=c", ""},
		{"https://hook.example.com:8443/", ""},
		{"https://hook.example.com:65535/", ""},
		{"https://8.8.8.8/", ""},
		{"https://inside.example.com/", targeturl.HostNotPublic},
		{"https://nowhere.example.com/", targeturl.DNSFailure},
		{"https://127.0.0.1:8443/", targeturl.HostNotPublic},
		{"https://[::ffff:127.0.0.1]/", targeturl.HostNotPublic},
		{"https://[64:ff9b::7f00:1]/", targeturl.HostNotPublic},
		{"https://168.63.129.16/", targeturl.HostNotPublic},
		{"https://localhost/", targeturl.HostNotPublic},
		{"http://hook.example.com/", targeturl.NotHTTPS},
		{"https://user@hook.example.com/", targeturl.Credentials},
		{"https://hook.example.com:22/", targeturl.PortDenied},
		{"", targeturl.Missing},
	} {
		if got, err := g.Check(t.Context(), test.url); err != nil || got != test.want {
			t.Errorf("%q: %q %v, want %q", test.url, got, err, test.want)
		}
	}
	if got, err := loopback.Check(t.Context(), "https://127.0.0.1:8443/"); err != nil || got != "" {
		t.Errorf("loopback, allowed: %q %v", got, err)
	}
}

// refusal returns the reason of a RefusedError, "" for any other error.
func refusal(err error) string {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}
