//go:build unix

package wasi

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"time"

	wasigo "github.com/stealthrocket/wasi-go"
	wasiunix "github.com/stealthrocket/wasi-go/systems/unix"
	"golang.org/x/sys/unix"
)

// socketsOffered reports whether modules may have an allow_dial on this system.
const socketsOffered = true

// sockets are those of one call. wasi-go makes the system calls and turns their
// errors into WASI's; what may be opened and connected to, and for how long, is
// decided here. The system's descriptors never block: where the guest wants to
// wait, awaitAny does.
type sockets struct {
	system   wasiunix.System
	ctx      context.Context
	resolved resolved
	opened   int
	bytes    int
	blocking map[wasigo.FD]bool // descriptors that the guest did not make non-blocking

	// A pipe, nil until the guest waits: ended is ready once ctx has ended, which closes wake.
	ended, wake *os.File
	unwatch     func() bool // stops watching ctx
}

var socketFuncs = map[string]socketFunc{
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

// network returns the call's sockets, which it makes at the first call.
func (c *Call) network() *sockets {
	if c.sockets == nil {
		c.sockets = &sockets{ctx: c.Host.Context(), resolved: resolved{}, blocking: map[wasigo.FD]bool{}}
	}
	return c.sockets
}

// close closes every socket. s may be nil.
func (s *sockets) close() {
	if s == nil {
		return
	}
	if s.ended != nil {
		s.unwatch()
		_ = s.wake.Close()
		_ = s.ended.Close()
	}
	_ = s.system.Close(context.Background())
}

// has reports whether fd is a socket. s may be nil.
func (s *sockets) has(fd uint32) bool {
	return s != nil && s.stat(socketOf(uint64(fd))) == wasigo.ESUCCESS
}

func (s *sockets) stat(fd wasigo.FD) wasigo.Errno {
	_, _, e := s.system.LookupSocketFD(fd, 0)
	return e
}

// socketOf returns wasi-go's descriptor for one of the guest's.
func socketOf(fd uint64) wasigo.FD { return wasigo.FD(int32(uint32(fd)) - firstSocket) }

func sockOpen(c *Call, memory []byte, args []uint64) errno {
	family, kind := uint32(args[0]), uint32(args[1])
	if family != familyIPv4 && family != familyIPv6 || kind != typeAny && kind != typeStream {
		return noSocket(c, memory, args)
	}
	if slice(memory, args[2], 4) == nil {
		return errFault
	}
	s := c.network()
	if s.opened >= c.Dialer.config.Sockets {
		return errno(wasigo.EMFILE)
	}
	fd, e := s.system.SockOpen(s.ctx, wasigo.ProtocolFamily(family), wasigo.StreamSocket, wasigo.TCPProtocol, wasigo.SockConnectionRights, 0)
	if e != wasigo.ESUCCESS {
		return errno(e)
	}
	s.opened++
	file, _, _ := s.system.LookupSocketFD(fd, 0)
	unix.CloseOnExec(int(file))
	if e := s.system.FDStatSetFlags(s.ctx, fd, wasigo.NonBlock); e != wasigo.ESUCCESS {
		return errno(e)
	}
	_ = s.system.SockSetOpt(s.ctx, fd, wasigo.TcpNoDelay, wasigo.IntValue(1)) // as Go's net does
	s.blocking[fd] = true
	return put32(memory, args[2], uint32(fd)+firstSocket)
}

func sockConnect(c *Call, memory []byte, args []uint64) errno {
	addr, e := getAddress(memory, args[1]) // one that is IPv4 mapped into IPv6 is in no allow_dial
	if e != success {
		return e
	}
	port := uint32(args[2])
	if port == 0 || port > 65535 {
		return errInvalid
	}
	s, fd := c.network(), socketOf(args[0])
	asked := netip.AddrPortFrom(addr, uint16(port))
	if !c.Dialer.allows(asked, s.resolved) {
		return errAccess
	}
	to := c.Dialer.config.Redirect(asked)
	var peer wasigo.SocketAddress
	if to.Addr().Is4() {
		peer = &wasigo.Inet4Address{Addr: to.Addr().As4(), Port: int(to.Port())}
	} else {
		peer = &wasigo.Inet6Address{Addr: to.Addr().As16(), Port: int(to.Port())}
	}
	_, failed := s.system.SockConnect(s.ctx, fd, peer)
	if failed != wasigo.EINPROGRESS || !s.blocking[fd] {
		return errno(failed)
	}
	c.await(fd, unix.POLLOUT)
	status, failed := s.system.SockGetOpt(s.ctx, fd, wasigo.QuerySocketError)
	if failed != wasigo.ESUCCESS {
		return errno(failed)
	}
	return errno(status.(wasigo.IntValue))
}

// sockGetsockopt reports the outcome of a connection, and offers no other option.
func sockGetsockopt(c *Call, memory []byte, args []uint64) errno {
	option := wasigo.MakeSocketOption(wasigo.SocketOptionLevel(uint32(args[1])), int32(uint32(args[2])))
	if option != wasigo.QuerySocketError || uint32(args[4]) != 4 {
		return errno(wasigo.ENOPROTOOPT)
	}
	s := c.network()
	status, e := s.system.SockGetOpt(s.ctx, socketOf(args[0]), option)
	if e != wasigo.ESUCCESS {
		return errno(e)
	}
	return put32(memory, args[3], uint32(status.(wasigo.IntValue)))
}

func sockLocal(c *Call, memory []byte, args []uint64) errno {
	s := c.network()
	addr, e := s.system.SockLocalAddress(s.ctx, socketOf(args[0]))
	return answerAddress(memory, args, addr, e)
}

func sockPeer(c *Call, memory []byte, args []uint64) errno {
	s := c.network()
	addr, e := s.system.SockRemoteAddress(s.ctx, socketOf(args[0]))
	return answerAddress(memory, args, addr, e)
}

func answerAddress(memory []byte, args []uint64, addr wasigo.SocketAddress, e wasigo.Errno) errno {
	switch a := addr.(type) {
	case *wasigo.Inet4Address:
		return putAddress(memory, args[1], args[2], netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
	case *wasigo.Inet6Address:
		return putAddress(memory, args[1], args[2], netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)))
	}
	return errno(e)
}

func sockRead(c *Call, memory []byte, args []uint64) errno {
	return c.transfer(memory, args[:3], args[3], unix.POLLIN, (*wasiunix.System).FDRead)
}

func sockWrite(c *Call, memory []byte, args []uint64) errno {
	return c.transfer(memory, args[:3], args[3], unix.POLLOUT, (*wasiunix.System).FDWrite)
}

func sockRecv(c *Call, memory []byte, args []uint64) errno {
	out := slice(memory, args[5], 2)
	if out == nil {
		return errFault
	}
	return c.transfer(memory, args[:3], args[4], unix.POLLIN,
		func(system *wasiunix.System, ctx context.Context, fd wasigo.FD, parts []wasigo.IOVec) (wasigo.Size, wasigo.Errno) {
			n, flags, e := system.SockRecv(ctx, fd, parts, wasigo.RIFlags(args[3])&wasigo.RecvPeek)
			binary.LittleEndian.PutUint16(out, uint16(flags))
			return n, e
		})
}

func sockSend(c *Call, memory []byte, args []uint64) errno {
	return c.transfer(memory, args[:3], args[4], unix.POLLOUT,
		func(system *wasiunix.System, ctx context.Context, fd wasigo.FD, parts []wasigo.IOVec) (wasigo.Size, wasigo.Errno) {
			return system.SockSend(ctx, fd, parts, 0)
		})
}

// transferFunc reads or writes a socket.
type transferFunc func(*wasiunix.System, context.Context, wasigo.FD, []wasigo.IOVec) (wasigo.Size, wasigo.Errno)

// transfer reads or writes the vectors that args name, after the descriptor, and
// writes to count how many bytes it moved. On a blocking socket it waits for events.
func (c *Call) transfer(memory []byte, args []uint64, count uint64, events int16, do transferFunc) errno {
	list, e := vectors(memory, args[1], args[2])
	if e != success {
		return e
	}
	if slice(memory, count, 4) == nil {
		return errFault
	}
	parts := make([]wasigo.IOVec, len(list))
	for i, b := range list {
		parts[i] = b
	}
	s, fd := c.network(), socketOf(args[0])
	for {
		n, failed := do(&s.system, s.ctx, fd, parts)
		if failed == wasigo.EAGAIN && s.blocking[fd] {
			c.await(fd, events)
			continue
		}
		if failed != wasigo.ESUCCESS {
			return errno(failed)
		}
		if s.bytes += int(n); s.bytes > c.Dialer.config.Bytes {
			c.Host.Stop(ErrSocketBytes)
		}
		return put32(memory, count, uint32(n))
	}
}

func sockShutdown(c *Call, _ []byte, args []uint64) errno {
	s := c.network()
	return errno(s.system.SockShutdown(s.ctx, socketOf(args[0]), wasigo.SDFlags(args[1])))
}

func sockClose(c *Call, _ []byte, args []uint64) errno {
	s, fd := c.network(), socketOf(args[0])
	delete(s.blocking, fd)
	return errno(s.system.FDClose(s.ctx, fd))
}

func sockStat(c *Call, memory []byte, args []uint64) errno {
	s, fd := c.network(), socketOf(args[0])
	if e := s.stat(fd); e != wasigo.ESUCCESS {
		return errno(e)
	}
	b := slice(memory, args[1], fdstatSize)
	if b == nil {
		return errFault
	}
	clear(b)
	b[0] = byte(wasigo.SocketStreamType)
	if !s.blocking[fd] {
		binary.LittleEndian.PutUint16(b[2:], uint16(wasigo.NonBlock))
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(wasigo.SockConnectionRights))
	return success
}

func sockSetFlags(c *Call, _ []byte, args []uint64) errno {
	s, fd, flags := c.network(), socketOf(args[0]), wasigo.FDFlags(args[1])
	if e := s.stat(fd); e != wasigo.ESUCCESS {
		return errno(e)
	}
	if flags&^wasigo.NonBlock != 0 {
		return errInvalid
	}
	s.blocking[fd] = !flags.Has(wasigo.NonBlock)
	return success
}

// poll returns what poll(2) is asked about a socket.
func (s *sockets) poll(fd wasigo.FD, events int16) unix.PollFd {
	file, _, _ := s.system.LookupSocketFD(fd, 0)
	return unix.PollFd{Fd: int32(file), Events: events}
}

// await waits until a socket is ready.
func (c *Call) await(fd wasigo.FD, events int16) {
	c.awaitAny([]unix.PollFd{c.network().poll(fd, events)}, time.Now().Add(maxWait))
}

// awaitAny waits until one of list is ready, but no longer than until, and returns list
// with what poll(2) said of each. It stops the guest's call when the context ends.
func (c *Call) awaitAny(list []unix.PollFd, until time.Time) []unix.PollFd {
	s := c.network()
	if s.ended == nil {
		var err error
		if s.ended, s.wake, err = os.Pipe(); err != nil {
			c.Host.Stop(fmt.Errorf("wait for sockets: %w", err))
		}
		s.unwatch = context.AfterFunc(s.ctx, func() { _ = s.wake.Close() })
	}
	list = append(list, unix.PollFd{Fd: int32(s.ended.Fd()), Events: unix.POLLIN})
	for {
		// Rounded up: a guest whose own clock says that its time is not over asks again and
		// again until it is, and its host calls are counted. A negative number of
		// milliseconds would be for ever.
		left := max(0, time.Until(until)+time.Millisecond-1) / time.Millisecond
		n, err := unix.Poll(list, int(left))
		if err := s.ctx.Err(); err != nil {
			c.Host.Stop(err)
		}
		if err != nil && err != unix.EINTR {
			c.Host.Stop(fmt.Errorf("wait for sockets: %w", err))
		}
		if n > 0 || !time.Now().Before(until) {
			return list[:len(list)-1]
		}
	}
}

// maxWait bounds a wait, so that its milliseconds are a number that poll(2) takes.
const maxWait = 24 * time.Hour

// pollSockets waits as awaitAny does, for d at most, and adds an event for each of list
// that is ready.
func (c *Call) pollSockets(list []subscription, d time.Duration, ready *events) {
	c.Host.Uncharged(func() {
		until := time.Now().Add(min(d, maxWait))
		polled := make([]unix.PollFd, len(list), len(list)+1)
		for i, s := range list {
			events := int16(unix.POLLIN)
			if s.kind() == kindWrite {
				events = unix.POLLOUT
			}
			polled[i] = c.network().poll(socketOf(uint64(s.fd())), events)
		}
		for i, p := range c.awaitAny(polled, until) {
			if p.Revents != 0 {
				ready.add(list[i], success)
			}
		}
	})
}
