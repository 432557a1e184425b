package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
)

// reach is where a module may connect to: the entries of Manifest.AllowDial.
// Empty: nowhere.
type reach map[endpoint]bool

// endpoint is one entry: a name in lower case without a dot at its end, or an
// address as netip writes it.
type endpoint struct {
	host string
	port uint16
}

func parseReach(list []string) (reach, error) {
	r := reach{}
	for _, entry := range list {
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			return nil, fmt.Errorf("allow_dial %q: %w", entry, err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return nil, fmt.Errorf("allow_dial %q: port %q is not 1 to 65535", entry, port)
		}
		e := endpoint{plainHost(host), uint16(number)}
		if addr, err := netip.ParseAddr(e.host); err == nil {
			if addr.Zone() != "" || addr.Is4In6() {
				return nil, fmt.Errorf("allow_dial %q: an address has no zone, and an IPv4 one is written as such", entry)
			}
		} else if !isName(e.host) {
			return nil, fmt.Errorf("allow_dial %q: %q is neither an address nor a name", entry, host)
		}
		r[e] = true
	}
	return r, nil
}

// plainHost is a host as endpoints have it.
func plainHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isName tells whether s is a DNS name of letters, digits, dashes and underscores.
func isName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// has tells whether the module may connect to an address that it names itself.
func (r reach) has(addr netip.AddrPort) bool {
	return r[endpoint{addr.Addr().String(), addr.Port()}]
}

// lookUp is Config.LookUp by default: Go's own resolver, for the C library's
// reads 2130706433 and 127.1 as loopback.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true}
	// The dot at the end keeps the machine's search domains out of it.
	return resolver.LookupNetIP(ctx, "ip", name+".")
}

// azureWire is where Azure answers its machines about themselves. The address
// is public by every registry.
var azureWire = netip.MustParsePrefix("168.63.129.16/32")

// publicOnly is Config.CheckDial by default.
func publicOnly() func(netip.AddrPort) error {
	classifier := ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire))
	return func(addr netip.AddrPort) error {
		if addr.Addr().Zone() != "" {
			return errors.New("address with a zone")
		}
		return classifier.SafeAddr(addr.Addr())
	}
}

// Why a module was refused a connection: each is logged once.
const (
	refusedSockets = 1 << iota // it has no allow_dial
	refusedKind                // it asked for more than to connect over TCP
	refusedTarget              // not in its allow_dial
	refusedAddress             // not where a module may connect to
)

// refuse logs, once for each reason, that the module was refused a connection.
func (m *Module) refuse(reason uint32, target string, err error) {
	if m.refused.Or(reason)&reason != 0 {
		return
	}
	text := map[uint32]string{
		refusedSockets: "its manifest has no allow_dial",
		refusedKind:    "modules may only connect, over TCP",
		refusedTarget:  "not in its allow_dial",
		refusedAddress: "not an address that modules may connect to",
	}[reason]
	attrs := []any{"module", m.manifest.Name, "digest", m.digest, "reason", text}
	if target != "" {
		attrs = append(attrs, "target", strings.ToValidUTF8(target, "?"))
	}
	if err != nil {
		attrs = append(attrs, "error", err.Error())
	}
	m.runtime.log.Warn("module refused a connection", attrs...)
}
