package wasi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// DialConfig says where a module may connect to.
type DialConfig struct {
	// Allow are the manifest's host:port pairs. Default: none.
	Allow []string
	// LookUp finds the addresses of a name in Allow, in lower case, without a dot at
	// its end. Its context ends after a second. Default: Go's own resolver.
	LookUp func(ctx context.Context, name string) ([]netip.Addr, error)
	// Check judges each address just before it is connected to; an error refuses it.
	// Default: all are refused.
	Check func(netip.AddrPort) error
	// Redirect returns the address to connect to in place of one that is allowed and
	// checked, for tests that stand for a server. Default: the same.
	Redirect func(netip.AddrPort) netip.AddrPort
	// Sockets is the most sockets that a call may open.
	Sockets int
	// Bytes is the most bytes that a call may read from and write to sockets together.
	Bytes int
	// Log gets the first refusal of each kind.
	Log *slog.Logger
}

// ErrSocketBytes is the error of a call that moved more than DialConfig.Bytes.
var ErrSocketBytes = errors.New("too many bytes over sockets")

// Dialer decides where one module may connect to. It may be used by many calls at
// once.
type Dialer struct {
	config DialConfig
	allow  map[endpoint]bool
	logged atomic.Uint32 // the refusals that were logged
}

// endpoint is the target of a connection: a host as plainHost writes it, and a port.
type endpoint struct {
	host string
	port uint16
}

// NewDialer makes a module's Dialer. It fails when an entry of Allow is not a
// host:port pair, or when the system offers no sockets.
func NewDialer(c DialConfig) (*Dialer, error) {
	if len(c.Allow) > 0 && !socketsOffered {
		return nil, errors.New("allow_dial: sockets are not offered on this system")
	}
	if c.LookUp == nil {
		c.LookUp = lookUp
	}
	if c.Check == nil {
		c.Check = func(netip.AddrPort) error { return errors.New("nothing judges addresses here") }
	}
	if c.Redirect == nil {
		c.Redirect = func(addr netip.AddrPort) netip.AddrPort { return addr }
	}
	allow, err := parseAllow(c.Allow)
	if err != nil {
		return nil, err
	}
	return &Dialer{config: c, allow: allow}, nil
}

// CheckAllow returns an error unless each entry is a host:port pair, as NewDialer takes it.
func CheckAllow(entries []string) error {
	_, err := parseAllow(entries)
	return err
}

func parseAllow(entries []string) (map[endpoint]bool, error) {
	allow := map[endpoint]bool{}
	for _, entry := range entries {
		e, err := parseEndpoint(entry)
		if err != nil {
			return nil, fmt.Errorf("allow_dial %q: %w", entry, err)
		}
		allow[e] = true
	}
	return allow, nil
}

func parseEndpoint(entry string) (endpoint, error) {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		return endpoint{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return endpoint{}, fmt.Errorf("port %q is not 1 to 65535", port)
	}
	e := endpoint{plainHost(host), uint16(number)}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		if addr.Zone() != "" || addr.Is4In6() {
			return endpoint{}, errors.New("an address has no zone, and an IPv4 one is written as such")
		}
	} else if !isName(e.host) {
		return endpoint{}, fmt.Errorf("%q is neither an address nor a name", host)
	}
	return e, nil
}

// plainHost returns the one way in which endpoints write a host: an address as
// netip does, a name in lower case without a dot at its end.
func plainHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isName reports whether s is a DNS name of letters, digits, dashes and underscores.
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

// lookUp is the default of DialConfig.LookUp. The C library's resolver would read
// 2130706433 and 127.1 as loopback.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	return lookUpBy(ctx, new(net.Dialer).DialContext, name)
}

// lookUpBy is lookUp with the function that connects to name servers.
func lookUpBy(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), name string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if udp, ok := conn.(*net.UDPConn); ok {
			return query{udp}, err
		}
		return conn, err
	}}
	// The dot at the end keeps the machine's search domains out of it.
	return resolver.LookupNetIP(ctx, "ip", name+".")
}

// query is a question to a name server, which waits for maxQuery at most.
type query struct{ *net.UDPConn }

// SetDeadline is called by the resolver with the time that it would wait until.
func (q query) SetDeadline(t time.Time) error {
	if soon := time.Now().Add(maxQuery); soon.Before(t) {
		t = soon
	}
	return q.UDPConn.SetDeadline(t)
}

// allowsAny reports whether there is anywhere to connect to.
func (d *Dialer) allowsAny() bool { return len(d.allow) > 0 }

// allows reports whether the module may connect to addr, which its allow_dial names
// or which a name there was resolved to.
func (d *Dialer) allows(addr netip.AddrPort, r resolved) bool {
	if !d.allow[endpoint{addr.Addr().String(), addr.Port()}] && !r.has(addr) {
		d.refuse(notNamed, addr.String(), nil)
		return false
	}
	if err := d.config.Check(addr); err != nil {
		d.refuse(notAllowed, addr.String(), err)
		return false
	}
	return true
}

// refusal is a reason why a module may not connect.
type refusal int

const (
	noAllowDial refusal = iota
	notTCP
	notNamed
	notAllowed
)

func (r refusal) String() string {
	return [...]string{
		noAllowDial: "its manifest has no allow_dial",
		notTCP:      "modules may only connect, over TCP",
		notNamed:    "not in its allow_dial",
		notAllowed:  "not an address that modules may connect to",
	}[r]
}

// refuse logs, once for each reason, that the module may not connect to target ("":
// to none in particular).
func (d *Dialer) refuse(why refusal, target string, err error) {
	bit := uint32(1) << why
	if d.logged.Or(bit)&bit != 0 {
		return
	}
	attrs := []any{"reason", why.String()}
	if target != "" {
		attrs = append(attrs, "target", strings.ToValidUTF8(target, "?"))
	}
	if err != nil {
		attrs = append(attrs, "error", err.Error())
	}
	d.config.Log.Warn("module refused a connection", attrs...)
}
