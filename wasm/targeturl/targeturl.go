// Package targeturl reads the address of a webhook target and says, by its
// syntax alone, whether it may be one. It is stricter than RFC 3986: what two
// readers could take for two different hosts is refused. Whether an address
// literal, or what a name resolves to, is public is not asked here.
package targeturl

import (
	"net/netip"
	"strings"
)

// Reasons why a target is refused. DNSFailure is never returned by Parse: it is
// for who resolves the host.
const (
	Missing       = "missing"
	TooLong       = "too_long"
	NotURL        = "not_a_url"
	NotHTTPS      = "scheme_not_https"
	Credentials   = "credentials_in_url"
	PortDenied    = "port_not_allowed"
	HostNotPublic = "host_not_public"
	DNSFailure    = "dns_failure"
)

// MaxLen is the most bytes that a target may have.
const MaxLen = 2048

// Parse takes the host and the port out of an https URL. reason is "" when it
// may be a target, otherwise the first rule that it breaks, and host and port
// are then "".
//
// host is in lower case, an IPv6 address without brackets. port is "443" when
// the URL names none, else 443 or 1024 to 65535. An address literal is a
// canonical one: netip.ParseAddr reads it and no resolver reads it otherwise.
func Parse(raw string) (host, port, reason string) {
	if raw == "" {
		return "", "", Missing
	}
	if len(raw) > MaxLen {
		return "", "", TooLong
	}
	scheme, rest, found := strings.Cut(raw, ":")
	if !found || !isScheme(scheme) || !printable(raw) {
		return "", "", NotURL
	}
	if !strings.EqualFold(scheme, "https") {
		return "", "", NotHTTPS
	}
	rest, found = strings.CutPrefix(rest, "//")
	if !found {
		return "", "", NotURL
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.IndexByte(authority, '@') >= 0 {
		return "", "", Credentials
	}
	host, port, reason = splitPort(authority)
	if reason == "" {
		host, reason = checkHost(host)
	}
	if reason == "" && !escaped(tail) {
		reason = NotURL
	}
	if reason == "" && !portAllowed(port) {
		reason = PortDenied
	}
	if reason != "" {
		return "", "", reason
	}
	return host, port, ""
}

// isScheme is the rule of RFC 3986, section 3.1.
func isScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isLetter(c) && (i == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// printable tells whether s is free of the characters that no URL holds bare:
// controls, space, and those that RFC 3986 leaves out. Bytes beyond ASCII pass:
// in a host they get a reason of their own.
func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] == 0x7f || strings.IndexByte("\"<>\\^`{|}", s[i]) >= 0 {
			return false
		}
	}
	return true
}

// escaped tells whether path, query and fragment are ASCII in which each % is
// followed by two hexadecimal digits.
func escaped(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
		if s[i] == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])) {
			return false
		}
	}
	return true
}

// splitPort takes an authority apart; a host in brackets keeps them. The port
// is "443" where there is none and is not judged.
func splitPort(authority string) (host, port, reason string) {
	after := authority
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", NotURL
		}
		host, after = authority[:end+1], authority[end+1:]
		if after != "" && after[0] != ':' {
			return "", "", NotURL
		}
	} else {
		colon := strings.IndexByte(authority, ':')
		if colon < 0 {
			colon = len(authority)
		}
		host, after = authority[:colon], authority[colon:]
	}
	if host == "" {
		return "", "", NotURL
	}
	if after == "" {
		return host, "443", ""
	}
	port = after[1:]
	for i := 0; i < len(port); i++ {
		if !isDigit(port[i]) {
			return "", "", NotURL
		}
	}
	return host, port, ""
}

// portAllowed knows digits only. "0443" and "65979" are read as 443 by some.
func portAllowed(port string) bool {
	if port == "" || port[0] == '0' || len(port) > 5 {
		return false
	}
	n := 0
	for i := 0; i < len(port); i++ {
		n = n*10 + int(port[i]-'0')
	}
	return n == 443 || n >= 1024 && n <= 65535
}

// checkHost returns the host in lower case and without brackets.
func checkHost(host string) (string, string) {
	if host[0] == '[' {
		inner := host[1 : len(host)-1]
		if strings.IndexByte(inner, '%') >= 0 {
			return "", HostNotPublic // a zone names an interface of this machine
		}
		addr, err := netip.ParseAddr(inner)
		if err != nil || !addr.Is6() {
			return "", NotURL
		}
		return addr.String(), ""
	}
	for i := 0; i < len(host); i++ {
		c := host[i]
		if c >= 0x80 || c == '%' {
			return "", HostNotPublic // IDNA maps some of these to dots, digits or nothing
		}
		if !isLetter(c) && !isDigit(c) && c != '-' && c != '.' && c != '_' {
			return "", NotURL
		}
	}
	host = strings.ToLower(host)
	if strings.HasSuffix(host, ".") {
		return "", HostNotPublic // escapes lists of names that lack the dot
	}
	if len(host) > 253 {
		return "", NotURL
	}
	last := host
	for labels := host; labels != ""; {
		label, more, _ := strings.Cut(labels, ".")
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", NotURL
		}
		last, labels = label, more
	}
	if isNumber(last) {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", HostNotPublic // 127.1, 2130706433, 0x7f.1, 0177.0.0.1
		}
		return host, ""
	}
	if last == host { // one label: a name of the local network, or localhost
		return "", HostNotPublic
	}
	switch last {
	case "localhost", "local", "internal":
		return "", HostNotPublic
	}
	return host, ""
}

// isNumber is when the URL standard (WHATWG, "ends in a number") takes the
// host for an IPv4 address.
func isNumber(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		for i := 0; i < len(rest); i++ {
			if !isHex(rest[i]) {
				return false
			}
		}
		return true
	}
	for i := 0; i < len(label); i++ {
		if !isDigit(label[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isHex(c byte) bool    { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
