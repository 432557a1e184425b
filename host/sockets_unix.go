//go:build unix

package host

import (
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/stealthrocket/wasi-go"
	wasiunix "github.com/stealthrocket/wasi-go/systems/unix"
	"golang.org/x/sys/unix"
)

// socketsOffered: modules may have an allow_dial on this system.
const socketsOffered = true

// sockets are a call's, made when the guest first asks for one. The system
// calls, and what WASI makes of them, are wasi-go's; what may be opened and
// reached, and for how long, is judged here. Descriptors of the machine's never
// block: a guest that wants to wait waits in await, until its deadline.
type sockets struct {
	system wasiunix.System
	found  resolved
	opened int
	bytes  int
	waits  map[wasi.FD]bool // those whose guest did not ask for non-blocking ones

	unhook func() bool   // ends the watch over the caller's context
	woken  chan struct{} // closed when that context ended, and system was told
}

var socketCalls = map[string]socketCall{
	"sock_open":           {false, sockOpen},
	"sock_connect":        {false, sockConnect},
	"sock_getaddrinfo":    {false, sockGetaddrinfo},
	"sock_getsockopt":     {false, sockGetsockopt},
	"sock_getlocaladdr":   {false, sockLocal},
	"sock_getpeeraddr":    {false, sockPeer},
	"sock_recv":           {true, sockRecv},
	"sock_send":           {true, sockSend},
	"sock_shutdown":       {true, sockShutdown},
	"fd_read":             {true, sockRead},
	"fd_write":            {true, sockWrite},
	"fd_close":            {true, sockClose},
	"fd_fdstat_get":       {true, sockStat},
	"fd_fdstat_set_flags": {true, sockSetFlags},
}

// network is the call's sockets.
func (c *call) network() *sockets {
	if c.sockets == nil {
		s := &sockets{found: resolved{}, waits: map[wasi.FD]bool{}, woken: make(chan struct{})}
		// It wants a clock to measure timeouts by that are relative.
		s.system.Monotonic = func(context.Context) (uint64, error) { return uint64(c.m.runtime.elapsed()), nil }
		s.unhook = context.AfterFunc(c.parent, func() {
			defer close(s.woken)
			_ = s.system.Shutdown(context.Background()) // wakes await
		})
		c.sockets = s
	}
	return c.sockets
}

// close closes every socket. s may be nil.
func (s *sockets) close() {
	if s == nil {
		return
	}
	if !s.unhook() {
		<-s.woken
	}
	_ = s.system.Close(context.Background())
}

// has tells whether there is a socket of this descriptor. s may be nil.
func (s *sockets) has(fd uint32) bool {
	return s != nil && s.stat(socketOf(uint64(fd))) == wasi.ESUCCESS
}

func (s *sockets) stat(fd wasi.FD) wasi.Errno {
	_, _, e := s.system.LookupSocketFD(fd, 0)
	return e
}

// socketOf is wasi-go's descriptor for one of the guest's.
func socketOf(fd uint64) wasi.FD { return wasi.FD(int32(uint32(fd)) - firstSocket) }

func sockOpen(c *call, memory []byte, args []uint64) errno {
	family, kind := uint32(args[0]), uint32(args[1])
	if family != familyIPv4 && family != familyIPv6 || kind != typeAny && kind != typeStream {
		return noSocket(c, memory, args)
	}
	if at(memory, args[2], 4) == nil {
		return wasiFault
	}
	s := c.network()
	if s.opened >= c.m.limits.Sockets {
		return errno(wasi.EMFILE)
	}
	fd, e := s.system.SockOpen(c, wasi.ProtocolFamily(family), wasi.StreamSocket, wasi.TCPProtocol, wasi.SockConnectionRights, 0)
	if e != wasi.ESUCCESS {
		return errno(e)
	}
	s.opened++
	file, _, _ := s.system.LookupSocketFD(fd, 0)
	unix.CloseOnExec(int(file))
	if e := s.system.FDStatSetFlags(c, fd, wasi.NonBlock); e != wasi.ESUCCESS {
		return errno(e)
	}
	_ = s.system.SockSetOpt(c, fd, wasi.TcpNoDelay, wasi.IntValue(1)) // as Go's net does
	s.waits[fd] = true
	return put32(memory, args[2], uint32(fd)+firstSocket)
}

func sockConnect(c *call, memory []byte, args []uint64) errno {
	addr, e := getAddress(memory, args[1])
	if e != wasiOK {
		return e
	}
	port := uint32(args[2])
	if port == 0 || port > 65535 {
		return wasiInvalid
	}
	// One that is IPv4 in IPv6's clothes is in no allow_dial.
	if !c.mayConnect(netip.AddrPortFrom(addr, uint16(port))) {
		return wasiAccess
	}
	var peer wasi.SocketAddress
	if addr.Is4() {
		peer = &wasi.Inet4Address{Addr: addr.As4(), Port: int(port)}
	} else {
		peer = &wasi.Inet6Address{Addr: addr.As16(), Port: int(port)}
	}
	s, fd := c.network(), socketOf(args[0])
	_, failed := s.system.SockConnect(c, fd, peer)
	if failed != wasi.EINPROGRESS || !s.waits[fd] {
		return errno(failed)
	}
	c.await(fd, wasi.FDWriteEvent)
	status, failed := s.system.SockGetOpt(c, fd, wasi.QuerySocketError)
	if failed != wasi.ESUCCESS {
		return errno(failed)
	}
	return errno(status.(wasi.IntValue))
}

// sockGetsockopt tells what became of a connection, and nothing else.
func sockGetsockopt(c *call, memory []byte, args []uint64) errno {
	option := wasi.MakeSocketOption(wasi.SocketOptionLevel(uint32(args[1])), int32(uint32(args[2])))
	if option != wasi.QuerySocketError || uint32(args[4]) != 4 {
		return errno(wasi.ENOPROTOOPT)
	}
	status, e := c.network().system.SockGetOpt(c, socketOf(args[0]), option)
	if e != wasi.ESUCCESS {
		return errno(e)
	}
	return put32(memory, args[3], uint32(status.(wasi.IntValue)))
}

func sockLocal(c *call, memory []byte, args []uint64) errno {
	addr, e := c.network().system.SockLocalAddress(c, socketOf(args[0]))
	return tellAddress(memory, args, addr, e)
}

func sockPeer(c *call, memory []byte, args []uint64) errno {
	addr, e := c.network().system.SockRemoteAddress(c, socketOf(args[0]))
	return tellAddress(memory, args, addr, e)
}

func tellAddress(memory []byte, args []uint64, addr wasi.SocketAddress, e wasi.Errno) errno {
	switch a := addr.(type) {
	case *wasi.Inet4Address:
		return putAddress(memory, args[1], args[2], netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
	case *wasi.Inet6Address:
		return putAddress(memory, args[1], args[2], netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)))
	}
	return errno(e)
}

func sockRead(c *call, memory []byte, args []uint64) errno {
	return c.move(memory, args[:3], args[3], wasi.FDReadEvent, func(fd wasi.FD, parts []wasi.IOVec) (wasi.Size, wasi.Errno) {
		return c.sockets.system.FDRead(c, fd, parts)
	})
}

func sockWrite(c *call, memory []byte, args []uint64) errno {
	return c.move(memory, args[:3], args[3], wasi.FDWriteEvent, func(fd wasi.FD, parts []wasi.IOVec) (wasi.Size, wasi.Errno) {
		return c.sockets.system.FDWrite(c, fd, parts)
	})
}

func sockRecv(c *call, memory []byte, args []uint64) errno {
	told := at(memory, args[5], 2)
	if told == nil {
		return wasiFault
	}
	return c.move(memory, args[:3], args[4], wasi.FDReadEvent, func(fd wasi.FD, parts []wasi.IOVec) (wasi.Size, wasi.Errno) {
		n, flags, e := c.sockets.system.SockRecv(c, fd, parts, wasi.RIFlags(args[3])&wasi.RecvPeek)
		binary.LittleEndian.PutUint16(told, uint16(flags))
		return n, e
	})
}

func sockSend(c *call, memory []byte, args []uint64) errno {
	return c.move(memory, args[:3], args[4], wasi.FDWriteEvent, func(fd wasi.FD, parts []wasi.IOVec) (wasi.Size, wasi.Errno) {
		return c.sockets.system.SockSend(c, fd, parts, 0)
	})
}

// move reads or writes what the first three parameters name, and tells how much
// was moved. A socket that is to wait does.
func (c *call) move(memory []byte, args []uint64, told uint64, event wasi.EventType,
	do func(wasi.FD, []wasi.IOVec) (wasi.Size, wasi.Errno)) errno {
	list, e := vectors(memory, args[1], args[2])
	if e != wasiOK {
		return e
	}
	if at(memory, told, 4) == nil {
		return wasiFault
	}
	parts := make([]wasi.IOVec, len(list))
	for i, b := range list {
		parts[i] = b
	}
	s, fd := c.network(), socketOf(args[0])
	for {
		n, failed := do(fd, parts)
		if failed == wasi.EAGAIN && s.waits[fd] {
			c.await(fd, event)
			continue
		}
		if failed != wasi.ESUCCESS {
			return errno(failed)
		}
		if s.bytes += int(n); s.bytes > c.m.limits.SocketBytes {
			c.stop(SocketBytes, nil)
		}
		return put32(memory, told, uint32(n))
	}
}

func sockShutdown(c *call, _ []byte, args []uint64) errno {
	return errno(c.network().system.SockShutdown(c, socketOf(args[0]), wasi.SDFlags(args[1])))
}

func sockClose(c *call, _ []byte, args []uint64) errno {
	s, fd := c.network(), socketOf(args[0])
	delete(s.waits, fd)
	return errno(s.system.FDClose(c, fd))
}

func sockStat(c *call, memory []byte, args []uint64) errno {
	s, fd := c.network(), socketOf(args[0])
	if e := s.stat(fd); e != wasi.ESUCCESS {
		return errno(e)
	}
	b := at(memory, args[1], 24) // as in fdstat
	if b == nil {
		return wasiFault
	}
	clear(b)
	b[0] = byte(wasi.SocketStreamType)
	if !s.waits[fd] {
		binary.LittleEndian.PutUint16(b[2:], uint16(wasi.NonBlock))
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(wasi.SockConnectionRights))
	return wasiOK
}

func sockSetFlags(c *call, _ []byte, args []uint64) errno {
	s, fd, flags := c.network(), socketOf(args[0]), wasi.FDFlags(args[1])
	if e := s.stat(fd); e != wasi.ESUCCESS {
		return errno(e)
	}
	if flags&^wasi.NonBlock != 0 {
		return wasiInvalid
	}
	s.waits[fd] = !flags.Has(wasi.NonBlock)
	return wasiOK
}

// await waits until a socket is ready, or the call's deadline ends the call.
func (c *call) await(fd wasi.FD, event wasi.EventType) {
	c.awaitAny([]wasi.Subscription{
		wasi.MakeSubscriptionFDReadWrite(0, event, wasi.SubscriptionFDReadWrite{FD: fd})}, math.MaxInt64)
}

// timedOut marks the subscription that awaitAny adds.
const timedOut = math.MaxUint64

// awaitAny waits until one of list is ready, for d at most, or until the call's
// deadline ends the call. It returns the events of those that are ready.
func (c *call) awaitAny(list []wasi.Subscription, d time.Duration) []wasi.Event {
	left := max(c.wall-c.m.runtime.elapsed(), 0)
	list = append(list, wasi.MakeSubscriptionClock(timedOut,
		wasi.SubscriptionClock{ID: wasi.Monotonic, Timeout: wasi.Timestamp(min(d, left))}))
	events := make([]wasi.Event, len(list))
	n, e := c.sockets.system.PollOneOff(c, list, events)
	if err := c.parent.Err(); err != nil {
		c.stop(contextReason(err), nil)
	}
	if e != wasi.ESUCCESS {
		c.stop(Failed, e)
	}
	ready := slices.DeleteFunc(events[:n], func(event wasi.Event) bool { return event.UserData == timedOut })
	if len(ready) == 0 && d >= left {
		c.stop(WallDeadline, nil)
	}
	return ready
}

// pollSockets waits as awaitAny does. list are subscriptions as poll has them;
// ready is told each that is ready.
func (c *call) pollSockets(list [][]byte, d time.Duration, ready func(subscription []byte, e errno)) {
	start := c.m.runtime.elapsed()
	subscriptions := make([]wasi.Subscription, len(list), len(list)+1)
	for i, s := range list {
		fd := socketOf(uint64(binary.LittleEndian.Uint32(s[16:])))
		subscriptions[i] = wasi.MakeSubscriptionFDReadWrite(wasi.UserData(i), wasi.EventType(s[8]), wasi.SubscriptionFDReadWrite{FD: fd})
	}
	for _, event := range c.awaitAny(subscriptions, d) {
		ready(list[event.UserData], errno(event.Errno))
	}
	c.inHost += c.m.runtime.elapsed() - start
}
