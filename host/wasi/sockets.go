package wasi

import (
	"encoding/binary"
	"net/netip"
)

// Sockets, for modules that have an allow_dial: version 2 of WasmEdge's
// extension of WASI preview 1, which github.com/stealthrocket/net/wasip1 calls
// in Go's guests. What it has besides connecting over TCP is refused.
//
//	address  0 u32 pointer; 4 u32 length of what it points to:
//	         4 or 16 bytes, an IPv4 or IPv6 address; or 128:
//	         0 u16 family (1: IPv4, 2: IPv6); 2 the address
const (
	familyAny  = 0
	familyIPv4 = 1
	familyIPv6 = 2

	typeAny    = 0
	typeStream = 2

	wideAddress = 128

	firstSocket = 3 // the lowest descriptor of a socket: below are the standard ones
)

// socketFunc implements a function in a module that has an allow_dial.
type socketFunc struct {
	sharedWithStdio bool // serves standard descriptors as well, in its plain way
	handle          handler
}

// orElse returns s for calls that may have sockets, and plain for others.
func (s socketFunc) orElse(plain handler) handler {
	return func(c *Call, memory []byte, args []uint64) (e errno) {
		if c.Dialer == nil || !c.Dialer.allowsAny() || s.sharedWithStdio && isStdio(args[0]) {
			return plain(c, memory, args)
		}
		c.Host.Uncharged(func() { e = s.handle(c, memory, args) })
		return e
	}
}

// noSocket refuses: any socket where there are none, in the warm-up and in modules
// without an allow_dial, and elsewhere whatever is not connecting over TCP.
func noSocket(c *Call, _ []byte, _ []uint64) errno {
	switch {
	case c.Dialer == nil:
	case c.Dialer.allowsAny():
		c.Dialer.refuse(notTCP, "", nil)
	default:
		c.Dialer.refuse(noAllowDial, "", nil)
	}
	return errNotSupported
}

// family returns an address's family.
func family(addr netip.Addr) byte {
	if addr.Is6() {
		return familyIPv6
	}
	return familyIPv4
}

// getAddress reads a socket's address, but for its port.
func getAddress(memory []byte, ptr uint64) (addr netip.Addr, e errno) {
	b, e := addressBuffer(memory, ptr)
	if e != success {
		return addr, e
	}
	if len(b) == wideAddress {
		switch binary.LittleEndian.Uint16(b) {
		case familyIPv4:
			b = b[2:6]
		case familyIPv6:
			b = b[2:18]
		}
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return addr, errInvalid
	}
	return addr, success
}

// putAddress writes a socket's address to ptr and its port to port.
func putAddress(memory []byte, ptr, port uint64, addr netip.AddrPort) errno {
	b, e := addressBuffer(memory, ptr)
	if e != success {
		return e
	}
	if len(b) != wideAddress {
		return errInvalid
	}
	binary.LittleEndian.PutUint16(b, uint16(family(addr.Addr())))
	copy(b[2:], addr.Addr().AsSlice())
	return put32(memory, port, uint32(addr.Port()))
}

func addressBuffer(memory []byte, ptr uint64) ([]byte, errno) {
	b := slice(memory, ptr, 8)
	if b == nil {
		return nil, errFault
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > wideAddress {
		return nil, errInvalid
	}
	if b = slice(memory, uint64(binary.LittleEndian.Uint32(b)), int(n)); b == nil {
		return nil, errFault
	}
	return b, success
}
