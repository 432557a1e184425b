// Package connections bounds the connections of a listener, and the requests over HTTP/2:
// in all, from one address, and from one network. It keeps idle connections without what
// net/http has for each.
package connections

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"partneredge/edge/logging"
	"partneredge/edge/places"
	"partneredge/wasm/network"
)

// Bounds limits the connections that a listener has at a time.
type Bounds struct {
	All     int // more wait to be accepted
	Address int // from one address, IPv6: one /64; more are closed at once
	Network int // from one /24, IPv6: one /48; more are closed at once
}

// Listener is a net.Listener that keeps to bounds.
type Listener struct {
	net.Listener
	bounds Bounds
	room   chan struct{} // holds one for each connection, and one while Accept waits
	taken  atomic.Int64  // how many of these places have a connection
	closed chan struct{}
	once   sync.Once
	failed *logging.Limiter

	origins
}

// Bound returns a listener of the TCP connections that ln accepts within
// bounds; those from exempt addresses only count in all. log says when ln fails.
func Bound(ln net.Listener, bounds Bounds, exempt func(netip.Addr) bool, log *slog.Logger) *Listener {
	return &Listener{
		Listener: ln, bounds: bounds, failed: logging.New(log),
		room: make(chan struct{}, bounds.All), closed: make(chan struct{}), origins: originsOf(bounds, exempt),
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		select {
		case l.room <- struct{}{}:
		case <-l.closed:
			return nil, fmt.Errorf("accept: %w", net.ErrClosed)
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.room
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.failed.Error("accept", "connections cannot be accepted", "addr", l.Addr().String(), "err", err)
			return nil, passing{err}
		}
		tcp := conn.(*net.TCPConn)
		if leave, ok := l.enter(tcp.RemoteAddr().String()); ok {
			l.taken.Add(1)
			return &boundedConn{TCPConn: tcp, leave: func() {
				leave()
				l.taken.Add(-1)
				<-l.room
			}}, nil
		}
		_ = tcp.Close()
		<-l.room
	}
}

// passing is an error of Accept after which net/http tries again, a little later. By itself
// it does so only for some, and serves nobody any more after others, such as ENOMEM.
type passing struct{ error }

// Timeout implements net.Error.
func (passing) Timeout() bool { return false }

// Temporary implements net.Error.
func (passing) Temporary() bool { return true }

// Unwrap returns the cause.
func (p passing) Unwrap() error { return p.error }

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Scarce reports whether connections have half of the places or more.
func (l *Listener) Scarce() bool { return 2*l.taken.Load() >= int64(l.bounds.All) }

// origins counts what comes from addresses and networks, but for exempt ones.
type origins struct {
	exempt              func(netip.Addr) bool // proxies, behind which there are many
	addresses, networks places.Places[netip.Prefix]
}

func originsOf(bounds Bounds, exempt func(netip.Addr) bool) origins {
	return origins{
		exempt: exempt, addresses: places.Places[netip.Prefix]{Each: bounds.Address}, networks: places.Places[netip.Prefix]{Each: bounds.Network},
	}
}

// enter takes places for what comes from an address, host:port. It returns false if the
// address or its network has all that it may have.
func (o *origins) enter(from string) (leave func(), ok bool) {
	at, err := netip.ParseAddrPort(from)
	if err != nil {
		return func() {}, true
	}
	a := at.Addr().Unmap().WithZone("")
	if o.exempt(a) {
		return func() {}, true
	}
	leaveAddress, ok := o.addresses.Take(network.Own(a))
	if !ok {
		return nil, false
	}
	leaveNetwork, ok := o.networks.Take(network.Site(a))
	if !ok {
		leaveAddress()
		return nil, false
	}
	return func() { leaveNetwork(); leaveAddress() }, true
}

// boundedConn is a connection that counts until it is closed. It is a *net.TCPConn to
// net/http, which closes only its own half while a client still sends what is refused:
// else the client would see a reset in place of the answer.
type boundedConn struct {
	*net.TCPConn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.once.Do(c.leave)
	return c.TCPConn.Close()
}
