package targeturl

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	long := "https://example.com/" + strings.Repeat("x", MaxLen-len("https://example.com/"))
	for _, tt := range []struct{ raw, host, port, reason string }{
		{"https://example.com", "example.com", "443", ""},
		{"https://Example.COM/Path", "example.com", "443", ""},
		{"HttpS://example.com", "example.com", "443", ""},
		{"https://example.com:443/a?b=c#d", "example.com", "443", ""},
		{"https://example.com:8443?x", "example.com", "8443", ""},
		{"https://example.com#x", "example.com", "443", ""},
		{"https://a_b.example.com/", "a_b.example.com", "443", ""},
		{"https://xn--exmple-cua.com/%C3%A9", "xn--exmple-cua.com", "443", ""},
		{"https://1.2.3.4:65535/", "1.2.3.4", "65535", ""},
		{"https://127.0.0.1:1024/", "127.0.0.1", "1024", ""}, // whether it is public is not checked
		{"https://[2606:4700::1111]/", "2606:4700::1111", "443", ""},
		{"https://[2606:4700:0::1111]:8443", "2606:4700::1111", "8443", ""},
		{"https://[::FFFF:127.0.0.1]/", "::ffff:127.0.0.1", "443", ""},
		{"https://example.com/a@b:c/..//[x]", "example.com", "443", ""},
		{"https://3com.4x/", "3com.4x", "443", ""},
		{"https://0xg.0xg/", "0xg.0xg", "443", ""},
		{long, "example.com", "443", ""},

		{"", "", "", Missing},
		{long + "x", "", "", TooLong},
		{strings.Repeat("\x00", MaxLen+1), "", "", TooLong},
		{"x", "", "", NotURL},
		{":", "", "", NotURL},
		{"//example.com", "", "", NotURL},
		{"1https://example.com", "", "", NotURL},
		{"https", "", "", NotURL},
		{"https:", "", "", NotURL},
		{"https://", "", "", NotURL},
		{"https://?x", "", "", NotURL},
		{"https://:443", "", "", NotURL},
		{"https:///example.com", "", "", NotURL},
		{"https://example.com\\@10.0.0.1/", "", "", NotURL},
		{"https://example.com/\t", "", "", NotURL},
		{"https://exa\x7fmple.com/", "", "", NotURL},
		{"https://exa mple.com/", "", "", NotURL},
		{"https://example.com/{id}", "", "", NotURL},
		{"https://example.com/%", "", "", NotURL},
		{"https://example.com/%4", "", "", NotURL},
		{"https://example.com/?%zz", "", "", NotURL},
		{"https://example.com/#%zz", "", "", NotURL},
		{"https://example.com/é", "", "", NotURL},
		{"https://*.example.com/", "", "", NotURL},
		{"https://.example.com/", "", "", NotURL},
		{"https://-a.example.com/", "", "", NotURL},
		{"https://a-.example.com/", "", "", NotURL},
		{"https://" + strings.Repeat("a", 64) + ".com/", "", "", NotURL},
		{"https://" + strings.Repeat("a.", 126) + "com/", "", "", NotURL},
		{"https://example.com:443:443/", "", "", NotURL},
		{"https://example.com:-1/", "", "", NotURL},
		{"https://example.com:+443/", "", "", NotURL},
		{"https://::1/", "", "", NotURL},
		{"https://2606:4700::1111/", "", "", NotURL},
		{"https://[1.2.3.4]/", "", "", NotURL},
		{"https://[]/", "", "", NotURL},
		{"https://[::1]x/", "", "", NotURL},
		{"https://[::1/", "", "", NotURL},
		{"https://[[::1]]/", "", "", NotURL},
		{"https://x[::1]/", "", "", NotURL},
		{"http://example.com", "", "", NotHTTPS},
		{"httpss://example.com", "", "", NotHTTPS},
		{"http:127.0.0.1/", "", "", NotHTTPS},
		{"wss://example.com", "", "", NotHTTPS},
		{"data:text/html,x", "", "", NotHTTPS},
		{"https://a@example.com", "", "", Credentials},
		{"https://a:b@example.com", "", "", Credentials},
		{"https://@", "", "", Credentials},
		{"https://example.com@127.0.0.1:80/", "", "", Credentials},
		{"https://example.com:", "", "", PortDenied},
		{"https://example.com:0", "", "", PortDenied},
		{"https://example.com:80", "", "", PortDenied},
		{"https://example.com:0443", "", "", PortDenied},
		{"https://example.com:1023", "", "", PortDenied},
		{"https://example.com:65536", "", "", PortDenied},
		{"https://example.com:65979", "", "", PortDenied},
		{"https://example.com:4294967739", "", "", PortDenied},
		{"https://localhost", "", "", HostNotPublic},
		{"https://LocalHost:8443/", "", "", HostNotPublic},
		{"https://localhost.", "", "", HostNotPublic},
		{"https://a.localhost", "", "", HostNotPublic},
		{"https://a.LOCAL", "", "", HostNotPublic},
		{"https://vault.internal", "", "", HostNotPublic},
		{"https://internal", "", "", HostNotPublic},
		{"https://example.com.", "", "", HostNotPublic},
		{"https://.", "", "", HostNotPublic},
		{"https://[fe80::1%25lo]/", "", "", HostNotPublic},
		{"https://[fe80::1%lo]/", "", "", HostNotPublic},
		{"https://2130706433/", "", "", HostNotPublic},
		{"https://127.1/", "", "", HostNotPublic},
		{"https://0x7f.1/", "", "", HostNotPublic},
		{"https://0X7F.0.0.1/", "", "", HostNotPublic},
		{"https://0x/", "", "", HostNotPublic},
		{"https://017700000001/", "", "", HostNotPublic},
		{"https://127.0.0.01/", "", "", HostNotPublic},
		{"https://127.0.0.256/", "", "", HostNotPublic},
		{"https://a.1/", "", "", HostNotPublic},
		{"https://example.0x7f/", "", "", HostNotPublic},
		{"https://exämple.com/", "", "", HostNotPublic},
		{"https://127。0。0。1/", "", "", HostNotPublic},
		{"https://ⓛocalhost.com/", "", "", HostNotPublic},
		{"https://\xff.com/", "", "", HostNotPublic},
		{"https://%31.1.1.1/", "", "", HostNotPublic},
		{"https://example.com%00/", "", "", HostNotPublic},
	} {
		host, port, reason := Parse(tt.raw)
		if host != tt.host || port != tt.port || reason != tt.reason {
			t.Errorf("%q: %q %q %q, want %q %q %q", tt.raw, host, port, reason, tt.host, tt.port, tt.reason)
		}
	}
}

// FuzzParse compares accepted URLs with net/url, which the sender uses: both must
// see the same host and port, or the guard would check another host than the one
// that is called.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "https://example.com", "https://example.com:8443/a?b#c", "https://[2606:4700::1111]:1024/", "http:127.0.0.1/",
		"https://a:b@c.de", "https://127.1/", "https://0x7f.1", "https://[fe80::1%25lo]/", "https://example.com./%2e",
		"https://ex\\ample.com", "https://exämple.com", "https://a.b:65536", "https://a.b:", "https://localhost/", "https://1.1.1.1#@a.b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		host, port, reason := Parse(raw)
		if reason != "" {
			if host != "" || port != "" {
				t.Fatalf("%q is refused, yet has host %q and port %q", raw, host, port)
			}
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q is accepted, and net/url says %v", raw, err)
		}
		if u.Scheme != "https" || u.User != nil || u.Opaque != "" {
			t.Fatalf("%q is accepted, and net/url parses %#v", raw, u)
		}
		theirs := strings.ToLower(u.Hostname())
		if addr, err := netip.ParseAddr(theirs); err == nil {
			theirs = addr.String()
		}
		if theirs != host || u.Port() != port && (u.Port() != "" || port != "443") {
			t.Fatalf("%q: host %q, port %q, and net/url parses %q and %q", raw, host, port, u.Hostname(), u.Port())
		}
		if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() != "" {
			t.Fatalf("%q has a zone", raw)
		}
	})
}
