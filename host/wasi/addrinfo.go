package wasi

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// sock_getaddrinfo resolves the names of a module's allow_dial, each once in a
// call, and no others. The guest says where answers go, as a list:
//
//	hints, answer  2 u8 family; 3 u8 type; 12 u32 pointer to the address;
//	               24 u32 pointer to the next answer, 0 at the end
//	address        0 u8 family; 4 u32 room; 8 u32 pointer to the data
//	data           0 u16 port, big-endian; 2 the IP address
const (
	answerSize  = 28
	addressSize = 16
)

// The longest name and service that are looked at, in bytes: those of POSIX, NI_MAXHOST
// and NI_MAXSERV. Longer ones are in no allow_dial, and to copy them, as large as a
// guest's memory, would cost time that the guest is not charged for.
const (
	maxName    = 1025
	maxService = 32
)

// maxLookUp bounds a lookup. No deadline of a Go guest's own passes meanwhile, as it has one
// thread, so this one is shorter than the deadlines that guests set.
const maxLookUp = time.Second

// maxQuery bounds the wait for one name server, so that the next is asked within maxLookUp.
const maxQuery = 300 * time.Millisecond

func sockGetaddrinfo(c *Call, memory []byte, args []uint64) errno {
	name, service := text(memory, args[0], args[1]), text(memory, args[2], args[3])
	hints := slice(memory, args[4], answerSize)
	first := slice(memory, args[5], 4)
	if name == nil || service == nil || hints == nil || first == nil {
		return errFault
	}
	if len(name) > maxName || len(service) > maxService {
		c.Dialer.refuse(notNamed, "", nil)
		return errAccess
	}
	wanted := hints[2]
	if wanted > familyIPv6 || hints[3] != typeAny && hints[3] != typeStream {
		c.Dialer.refuse(notTCP, string(name), nil)
		return errNotSupported
	}
	answer, most := binary.LittleEndian.Uint32(first), uint32(args[6])
	addrs, e := c.resolve(string(name), string(service))
	if e != success {
		return e
	}
	written := uint32(0)
	for _, addr := range addrs {
		if written == most || answer == 0 {
			break
		}
		if wanted != familyAny && wanted != family(addr.Addr()) {
			continue
		}
		b := slice(memory, uint64(answer), answerSize)
		if b == nil || !putAnswer(memory, b, addr) {
			return errFault
		}
		answer = binary.LittleEndian.Uint32(b[24:])
		written++
	}
	return put32(memory, args[7], written)
}

// putAnswer writes addr where answer says that there is room for it.
func putAnswer(memory, answer []byte, addr netip.AddrPort) bool {
	b := slice(memory, uint64(binary.LittleEndian.Uint32(answer[12:])), addressSize)
	if b == nil {
		return false
	}
	ip := addr.Addr().AsSlice()
	room := int(binary.LittleEndian.Uint32(b[4:]))
	data := slice(memory, uint64(binary.LittleEndian.Uint32(b[8:])), 2+len(ip))
	if data == nil || room < 2+len(ip) {
		return false
	}
	binary.BigEndian.PutUint16(data, addr.Port())
	copy(data[2:], ip)
	b[0] = family(addr.Addr())
	return true
}

// text returns a string of the guest's, which may end in a zero byte; nil when it
// is not all in memory.
func text(memory []byte, ptr, n uint64) []byte {
	b := slice(memory, ptr, int(uint32(n)))
	if len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// resolve returns the addresses of an endpoint that the module's allow_dial names.
// They may be connected to for the rest of the call.
func (c *Call) resolve(name, service string) ([]netip.AddrPort, errno) {
	port, err := net.LookupPort("tcp", service) // by Go's own table
	if err != nil || port <= 0 {
		return nil, errInvalid
	}
	e := endpoint{plainHost(name), uint16(port)}
	if !c.Dialer.allow[e] {
		c.Dialer.refuse(notNamed, net.JoinHostPort(name, strconv.Itoa(port)), nil)
		return nil, errAccess
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(addr, e.port)}, success
	}
	s := c.network()
	if known, ok := s.resolved[e]; ok {
		return known.addrs, known.failed
	}
	ctx := c.Host.Context()
	bounded, cancel := context.WithTimeout(ctx, maxLookUp)
	addrs, err := c.Dialer.config.LookUp(bounded, e.host)
	cancel()
	if ctx.Err() != nil {
		c.Host.Stop(ctx.Err())
	}
	var at lookedUp
	if err != nil {
		at.failed = lookUpErrno(err)
	}
	for _, addr := range addrs {
		// The resolver may give the answers to A as mapped IPv6 addresses.
		at.addrs = append(at.addrs, netip.AddrPortFrom(addr.Unmap().WithZone(""), e.port))
	}
	s.resolved[e] = at
	return at.addrs, at.failed
}

func lookUpErrno(err error) errno {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsTimeout || errors.Is(err, context.DeadlineExceeded) {
		return errTimedOut
	}
	return errUnreachable
}

// resolved holds the endpoints that a call looked up.
type resolved map[endpoint]lookedUp

// lookedUp holds the addresses that a lookup has found, or why it has found none.
type lookedUp struct {
	addrs  []netip.AddrPort
	failed errno
}

func (r resolved) has(addr netip.AddrPort) bool {
	for _, at := range r {
		if slices.Contains(at.addrs, addr) {
			return true
		}
	}
	return false
}
