package targeturl

import (
	"strings"
	"testing"
)

// TestBounds tries what lies just within each rule of the syntax, and just beyond.
func TestBounds(t *testing.T) {
	label := strings.Repeat("a", 63)
	host := strings.Repeat(label+".", 3) + strings.Repeat("b", 57) + ".com" // 253 characters
	for _, c := range []struct{ raw, reason string }{
		{"https://" + label + ".com/", ""},
		{"https://" + label + "a.com/", NotURL},
		{"https://" + host + "/", ""},
		{"https://" + host[:len(host)-4] + "b.com/", NotURL},
		{"https://az09.AZ.com/", ""},
		{"https://a.zz/", ""},
		{"https://a.0xff/", HostNotPublic},
		{"https://a.0xaf/", HostNotPublic},
		{"https://a.0x09/", HostNotPublic},
		{"https://a.0xgf/", ""},
		{"https://a.0x-1/", ""},
		{"https://a.x1/", ""},
		{"https://a.09/", HostNotPublic},
		{"https://a`b.com/", NotURL},
		{"https://\x80.com/", HostNotPublic},
		{"https://a@", Credentials},
		{"https:///@", NotURL},
		{"https://?@", NotURL},
		{"https://[/", NotURL},
		{"https://]/", NotURL},
		{"https://[]:443/", NotURL},
		{"https://[%25lo]/", HostNotPublic},
		{"https://example.com:a/", NotURL},
		{"https://example.com:4a/", NotURL},
		{"https://example.com:442/", PortDenied},
		{"https://example.com:444/", PortDenied},
		{"https://example.com:65534/", ""},
		{"https://example.com:100000/", PortDenied},
		{"https://example.com/%", NotURL},
		{"https://example.com/%a", NotURL},
		{"https://example.com/%aF", ""},
		{"https://example.com/%09", ""},
		{"https://example.com/%0g", NotURL},
		{"https://example.com/%g0", NotURL},
		{"https://example.com/%%a0", NotURL},
		{"https://example.com/%:0", NotURL},
		{"https://example.com/%0/", NotURL},
		{"https://example.com/~", ""},
		{"https://example.com/!", ""},
		{"https://example.com/\x7f", NotURL},
		{"https://example.com/ ", NotURL},
		{" https://example.com/", NotURL},
		{"\x1fhttps://example.com/", NotURL},
		{"https://example.com/\"", NotURL},
		{"https://example.com/\x80", NotURL},
		{"https://example.com/a\x80", NotURL},
		{"https://example.com/\u0080", NotURL},
		{"a+-.z0://example.com/", NotHTTPS},
		{"z://example.com/", NotHTTPS},
		{"aA9://example.com/", NotHTTPS},
		{"+a://example.com/", NotURL},
		{"0a://example.com/", NotURL},
		{"a_://example.com/", NotURL},
		{"a{://example.com/", NotURL},
		{"a@://example.com/", NotURL},
	} {
		if _, _, reason := Parse(c.raw); reason != c.reason {
			t.Errorf("%q: %q, want %q", c.raw, reason, c.reason)
		}
	}
}
