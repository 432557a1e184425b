// Package connections bounds the connections of a listener: in all, from one
// address, and from one network. It keeps idle ones without what net/http has for each.
package connections

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"partneredge/store/cidr"
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
	exempt func(netip.Addr) bool // proxies, behind which there are many
	room   chan struct{}         // holds one for each connection, and one while Accept waits
	taken  atomic.Int64          // how many of these places have a connection
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[netip.Prefix]int // connections by address, and by network
}

// Bound returns a listener of the TCP connections that ln accepts within
// bounds; those from exempt addresses only count in all.
func Bound(ln net.Listener, bounds Bounds, exempt func(netip.Addr) bool) *Listener {
	return &Listener{
		Listener: ln, bounds: bounds, exempt: exempt,
		room: make(chan struct{}, bounds.All), closed: make(chan struct{}), open: map[netip.Prefix]int{},
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
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			panic("a listener of something else than TCP")
		}
		networks := l.networksOf(tcp.RemoteAddr())
		if l.take(networks) {
			l.taken.Add(1)
			return &boundedConn{TCPConn: tcp, release: func() { l.release(networks) }}, nil
		}
		_ = tcp.Close()
		<-l.room
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Scarce reports whether connections have half of the places or more.
func (l *Listener) Scarce() bool { return 2*l.taken.Load() >= int64(l.bounds.All) }

// network is a prefix of an address, with the most connections from it.
type network struct {
	netip.Prefix
	most int
}

// networksOf returns the networks in which a connection counts.
func (l *Listener) networksOf(from net.Addr) []network {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return nil
	}
	a := at.Addr().Unmap().WithZone("")
	if l.exempt(a) {
		return nil
	}
	return []network{
		{cidr.Own(a), l.bounds.Address},
		{cidr.Site(a), l.bounds.Network},
	}
}

// take counts a connection, unless one of its networks has all that it may have.
func (l *Listener) take(networks []network) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range networks {
		if l.open[n.Prefix] >= n.most {
			return false
		}
	}
	for _, n := range networks {
		l.open[n.Prefix]++
	}
	return true
}

func (l *Listener) release(networks []network) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range networks {
		if l.open[n.Prefix]--; l.open[n.Prefix] == 0 {
			delete(l.open, n.Prefix)
		}
	}
	l.taken.Add(-1)
	<-l.room
}

// boundedConn is a connection that counts until it is closed. It is a *net.TCPConn to
// net/http, which closes only its own half while a client still sends what is refused:
// else the client would see a reset in place of the answer.
type boundedConn struct {
	*net.TCPConn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.once.Do(c.release)
	return c.TCPConn.Close()
}
