package host

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
)

// sock_getaddrinfo: the host looks names up, only those of the module's
// allow_dial, each once in a call. The guest says where answers go, as a list:
//
//	hints, answer  2 u8 family; 3 u8 type; 12 u32 pointer to the address;
//	               24 u32 pointer to the next answer, 0 at the end
//	address        0 u8 family; 4 u32 room; 8 u32 pointer to the data
//	data           0 u16 port, big-endian; 2 the IP address
const (
	answerSize  = 28
	addressSize = 16
)

func sockGetaddrinfo(c *call, memory []byte, args []uint64) errno {
	name, service := text(memory, args[0], args[1]), text(memory, args[2], args[3])
	hints := at(memory, args[4], answerSize)
	first := at(memory, args[5], 4)
	if name == nil || service == nil || hints == nil || first == nil {
		return wasiFault
	}
	family := hints[2]
	if family > familyIPv6 || hints[3] != typeAny && hints[3] != typeStream {
		c.m.refuse(refusedKind, string(name), nil)
		return wasiNotSup
	}
	answer, most := binary.LittleEndian.Uint32(first), uint32(args[6])
	addrs, e := c.resolve(string(name), string(service))
	if e != wasiOK {
		return e
	}
	written := uint32(0)
	for _, addr := range addrs {
		if written == most || answer == 0 {
			break
		}
		if family == familyIPv4 && !addr.Addr().Is4() || family == familyIPv6 && !addr.Addr().Is6() {
			continue
		}
		b := at(memory, uint64(answer), answerSize)
		if b == nil || !putAnswer(memory, b, addr) {
			return wasiFault
		}
		answer = binary.LittleEndian.Uint32(b[24:])
		written++
	}
	return put32(memory, args[7], written)
}

// putAnswer writes where an answer's address has its room.
func putAnswer(memory, answer []byte, addr netip.AddrPort) bool {
	b := at(memory, uint64(binary.LittleEndian.Uint32(answer[12:])), addressSize)
	if b == nil {
		return false
	}
	ip := addr.Addr().AsSlice()
	room := int(binary.LittleEndian.Uint32(b[4:]))
	data := at(memory, uint64(binary.LittleEndian.Uint32(b[8:])), 2+len(ip))
	if data == nil || room < 2+len(ip) {
		return false
	}
	binary.BigEndian.PutUint16(data, addr.Port())
	copy(data[2:], ip)
	b[0] = familyIPv4
	if addr.Addr().Is6() {
		b[0] = familyIPv6
	}
	return true
}

// text is a string of the guest's, which may end in a zero byte; nil when it is
// not all in memory.
func text(memory []byte, ptr, n uint64) []byte {
	b := at(memory, ptr, int(uint32(n)))
	if len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// resolve is where an endpoint is that the module may connect to. What it
// returns may be connected to in this call, if it is what modules may reach.
func (c *call) resolve(name, service string) ([]netip.AddrPort, errno) {
	port, err := net.LookupPort("tcp", service) // by Go's own table
	if err != nil || port <= 0 {
		return nil, wasiInvalid
	}
	e := endpoint{plainHost(name), uint16(port)}
	if !c.m.reach[e] {
		c.m.refuse(refusedTarget, net.JoinHostPort(name, strconv.Itoa(port)), nil)
		return nil, wasiAccess
	}
	if addr, err := netip.ParseAddr(e.host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(addr, e.port)}, wasiOK
	}
	s := c.network()
	if known, ok := s.found[e]; ok {
		return known, wasiOK
	}
	start := c.m.runtime.elapsed()
	addrs, err := c.m.runtime.lookUp(c.context(), e.host)
	c.inHost += c.m.runtime.elapsed() - start
	c.check() // it may have taken until the deadline
	if err != nil {
		return nil, lookUpErrno(err)
	}
	var list []netip.AddrPort
	for _, addr := range addrs {
		// The resolver may give the answers to A as mapped IPv6 addresses.
		list = append(list, netip.AddrPortFrom(addr.Unmap().WithZone(""), e.port))
	}
	s.found[e] = list
	return list, wasiOK
}

func lookUpErrno(err error) errno {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsTimeout || errors.Is(err, context.DeadlineExceeded) {
		return wasiTimedOut
	}
	return wasiUnreachable
}

// mayConnect judges an address that the guest is about to connect to: it is
// named by its allow_dial or was looked up for a name there, and it is where
// modules may connect to.
func (c *call) mayConnect(addr netip.AddrPort) bool {
	if !c.m.reach.has(addr) && !c.network().found.has(addr) {
		c.m.refuse(refusedTarget, addr.String(), nil)
		return false
	}
	if err := c.m.runtime.checkDial(addr); err != nil {
		c.m.refuse(refusedAddress, addr.String(), err)
		return false
	}
	return true
}

// resolved are the endpoints that were looked up in a call.
type resolved map[endpoint][]netip.AddrPort

func (r resolved) has(addr netip.AddrPort) bool {
	for _, list := range r {
		for _, known := range list {
			if known == addr {
				return true
			}
		}
	}
	return false
}
