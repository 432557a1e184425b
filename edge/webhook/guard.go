package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"partneredge/store"
	"partneredge/wasm/targeturl"
)

// azureWire is the network at which Azure answers its machines about themselves.
// It is public by every registry.
var azureWire = netip.MustParsePrefix("168.63.129.16/32")

// GuardConfig says what a Guard lets through. The zero value lets through
// public addresses only.
type GuardConfig struct {
	// Allow opens address ranges that are refused otherwise, such as
	// 127.0.0.0/8 for tests on loopback. Names and ports are judged as ever, and
	// so is the IPv4 address in one of NAT64 (64:ff9b::/96). Default: none.
	Allow []netip.Prefix
	// Resolver looks names up. It must be Go's own (PreferGo): the C library's
	// reads 2130706433, 0x7f.1 and 127.1 as loopback. Nil: such a one.
	Resolver *net.Resolver
	// LookupTimeout of Check. Zero: 3 s.
	LookupTimeout time.Duration
}

// Guard keeps deliveries away from addresses that are not public: Check when a
// target is registered, Control at every dial, so that a name that is bound
// anew between the two gains nothing.
type Guard struct {
	classifier *ssrf.Guardian
	resolver   *net.Resolver
	timeout    time.Duration
}

// NewGuard returns a Guard, which is safe for concurrent use.
func NewGuard(config GuardConfig) *Guard {
	var allow4, allow6 []netip.Prefix
	for _, prefix := range config.Allow {
		if prefix.Addr().Is4() {
			allow4 = append(allow4, prefix)
		} else {
			allow6 = append(allow6, prefix)
		}
	}
	return &Guard{
		classifier: ssrf.New(
			ssrf.WithAnyPort(), // judged here: its rule is a list
			ssrf.WithDeniedV4Prefixes(azureWire),
			ssrf.WithAllowedV4Prefixes(allow4...),
			ssrf.WithAllowedV6Prefixes(allow6...),
		),
		resolver: cmp.Or(config.Resolver, &net.Resolver{PreferGo: true}),
		timeout:  cmp.Or(max(config.LookupTimeout, 0), 3*time.Second),
	}
}

// RefusedError says that a dial was refused. It is a store.ErrRefused.
type RefusedError struct {
	Reason string // of the contract's invalid_target_url
	Detail string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by guard: %s: %s", e.Reason, e.Detail)
}

func (e *RefusedError) Unwrap() error { return store.ErrRefused }

// Check judges a target that is to be registered: its form, then its address,
// or every address that its name has now. The reason is "" when the target is
// accepted. An error means that ctx ended before an answer was known; a name
// that cannot be looked up in time is the reason dns_failure.
func (g *Guard) Check(ctx context.Context, rawURL string) (reason string, err error) {
	host, port, reason := targeturl.Parse(rawURL)
	if reason != "" {
		return reason, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return targeturl.PortDenied, nil
	}
	return g.checkHost(ctx, host, uint16(n))
}

// checkHost judges a literal address, or every address that a name has now.
func (g *Guard) checkHost(ctx context.Context, host string, port uint16) (reason string, err error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.judge(netip.AddrPortFrom(addr, port)), nil
	}
	if !allowedPort(port) {
		return targeturl.PortDenied, nil
	}
	lookup, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	addrs, err := g.resolver.LookupNetIP(lookup, "ip", absolute(host))
	if ctx.Err() != nil {
		return "", fmt.Errorf("look up webhook target: %w", ctx.Err())
	}
	if err != nil || len(addrs) == 0 {
		return targeturl.DNSFailure, nil
	}
	for _, addr := range addrs {
		// The resolver may give the answers to A as mapped IPv6 addresses.
		if reason := g.judge(netip.AddrPortFrom(addr.Unmap(), port)); reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// Control is for net.Dialer: it runs after a name is looked up, for each
// address that is dialled. Its errors are *RefusedError.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &RefusedError{Reason: targeturl.HostNotPublic, Detail: network + " " + address}
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Reason: targeturl.HostNotPublic, Detail: address}
	}
	if reason := g.judge(addr); reason != "" {
		return &RefusedError{Reason: reason, Detail: address}
	}
	return nil
}

// CheckAddr judges an address whatever the port, for dials whose ports others
// rule. Its errors are *RefusedError.
func (g *Guard) CheckAddr(addr netip.Addr) error {
	// A zone names an interface of this machine. Every prefix answers no to a
	// zoned address, the refused ones too, so it is judged first.
	refused := addr.Zone() != "" || g.classifier.SafeAddr(addr) != nil
	if !refused && ssrf.IPv6NAT64Prefix.Contains(addr) {
		b := addr.As16() // a gateway may pass on to the IPv4 address at its end, private or not
		refused = g.classifier.SafeAddr(netip.AddrFrom4([4]byte(b[12:]))) != nil
	}
	if refused {
		return &RefusedError{Reason: targeturl.HostNotPublic, Detail: addr.String()}
	}
	return nil
}

// judge returns why an address may not be called, "" when it may.
func (g *Guard) judge(addr netip.AddrPort) (reason string) {
	if g.CheckAddr(addr.Addr()) != nil {
		return targeturl.HostNotPublic
	}
	if !allowedPort(addr.Port()) {
		return targeturl.PortDenied
	}
	return ""
}

// allowedPort: HTTPS's own, and those that need no privilege.
func allowedPort(port uint16) bool { return port == 443 || port >= 1024 }

// Dial returns a dial of what the guard lets through, with names looked up by its
// resolver as Check looks them up.
func (g *Guard) Dial(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{
		Timeout:   timeout,
		KeepAlive: 30 * time.Second,
		Resolver:  g.resolver,
		Control:   g.Control,
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial webhook target: %w", err)
		}
		if _, err := netip.ParseAddr(host); err != nil {
			address = net.JoinHostPort(absolute(host), port)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// absolute keeps the machine's search domains out of a name's lookup. In Kubernetes they
// are tried before the name itself.
func absolute(name string) string { return name + "." }
