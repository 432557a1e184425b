// Package targeturl parses the URL of a webhook target and decides by its syntax
// alone whether it is acceptable. It is stricter than RFC 3986: it refuses URLs
// in which two parsers could see different hosts. It does not check whether an
// address literal, or an address that a name resolves to, is public.
package targeturl

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"partneredge/wasm/percent"
)

// Reasons why a target is refused. Parse never returns DNSFailure; it is for
// callers that resolve the host.
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

// MaxLen bounds a target, in bytes.
const MaxLen = 2048

// Parse returns the host and the port of an https URL. If the URL is refused,
// reason names the first rule that it breaks, and host and port are "".
//
// host is in lower case, an IPv6 address without brackets. port is 443 (the
// default) or 1024 to 65535. An address literal is in canonical form:
// netip.ParseAddr parses it, and no resolver takes it for another address.
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

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// only reports whether s has no characters but those of set.
func only(s, set string) bool { return strings.Trim(s, set) == "" }

// isScheme reports whether s is a scheme by RFC 3986, section 3.1.
func isScheme(s string) bool {
	return s != "" && only(s[:1], letters) && only(s, letters+digits+"+-.")
}

// printable reports whether s has none of the characters that must be escaped in
// a URL: control characters, space, and those that RFC 3986 does not mention.
// Non-ASCII bytes pass; in a host they have a reason of their own.
func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] == 0x7f || strings.IndexByte("\"<>\\^`{|}", s[i]) >= 0 {
			return false
		}
	}
	return true
}

// escaped reports whether s (path, query and fragment) is ASCII in which each %
// is followed by two hexadecimal digits.
func escaped(s string) bool {
	_, ok := percent.Decode(s)
	return ok && !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// splitPort splits an authority. A host in brackets keeps them. The port is "443"
// if there is none, and is not checked.
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
	if port = after[1:]; !only(port, digits) {
		return "", "", NotURL
	}
	return host, port, ""
}

// portAllowed reports whether port, which holds digits only, is allowed. Some
// parsers take "0443" and "65979" for 443.
func portAllowed(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && port[0] != '0' && (n == 443 || n >= 1024)
}

// checkHost returns the host in lower case and without brackets, or the reason to
// refuse it.
func checkHost(host string) (string, string) {
	if host[0] == '[' {
		inner := host[1 : len(host)-1]
		if strings.IndexByte(inner, '%') >= 0 {
			return "", HostNotPublic // a zone names a network interface of the sender
		}
		addr, err := netip.ParseAddr(inner)
		if err != nil || !addr.Is6() {
			return "", NotURL
		}
		return addr.String(), ""
	}
	if rest := strings.TrimLeft(host, letters+digits+"-._"); rest != "" {
		if rest[0] >= utf8.RuneSelf || rest[0] == '%' {
			return "", HostNotPublic // IDNA maps some of these to dots, digits or nothing
		}
		return "", NotURL
	}
	host = strings.ToLower(host)
	if strings.HasSuffix(host, ".") {
		return "", HostNotPublic // would evade lists of names without the dot
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

// isNumber reports whether a host with this last label, in lower case, is an IPv4 address by the
// URL standard (WHATWG, "ends in a number").
func isNumber(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		return only(rest, digits+"abcdef")
	}
	return only(label, digits)
}
