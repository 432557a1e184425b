package host

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

	// firstSocket is the lowest descriptor of a socket: below are the standard
	// ones.
	firstSocket = 3
)

// socketCall is what a WASI function does in a module that has an allow_dial.
type socketCall struct {
	// onDescriptor: only where the first parameter is no standard descriptor.
	onDescriptor bool
	call         func(c *call, memory []byte, args []uint64) errno
}

// orSocket is plain, or what it is with sockets.
func orSocket(plain func(*call, []byte, []uint64) errno, s socketCall) func(*call, []byte, []uint64) errno {
	return func(c *call, memory []byte, args []uint64) errno {
		if len(c.m.reach) == 0 || c.warm != nil || s.onDescriptor && isStdio(args[0]) {
			return plain(c, memory, args)
		}
		start, before := c.m.runtime.elapsed(), c.inHost
		e := s.call(c, memory, args)
		c.inHost = before + c.m.runtime.elapsed() - start
		return e
	}
}

// noSocket is the answer of the extension's functions where there are no
// sockets: to modules without an allow_dial, in the warm-up, and to whatever
// is not connecting over TCP.
func noSocket(c *call, _ []byte, _ []uint64) errno {
	switch {
	case c.warm != nil: // there is no world yet
	case len(c.m.reach) == 0:
		c.m.refuse(refusedSockets, "", nil)
	default:
		c.m.refuse(refusedKind, "", nil)
	}
	return wasiNotSup
}

// getAddress reads a socket address, but for its port.
func getAddress(memory []byte, ptr uint64) (addr netip.Addr, e errno) {
	b, e := addressBuffer(memory, ptr)
	if e != wasiOK {
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
		return addr, wasiInvalid
	}
	return addr, wasiOK
}

// putAddress writes one.
func putAddress(memory []byte, ptr, port uint64, addr netip.AddrPort) errno {
	b, e := addressBuffer(memory, ptr)
	if e != wasiOK {
		return e
	}
	if len(b) != wideAddress {
		return wasiInvalid
	}
	family := uint16(familyIPv4)
	if addr.Addr().Is6() {
		family = familyIPv6
	}
	binary.LittleEndian.PutUint16(b, family)
	copy(b[2:], addr.Addr().AsSlice())
	return put32(memory, port, uint32(addr.Port()))
}

func addressBuffer(memory []byte, ptr uint64) ([]byte, errno) {
	b := at(memory, ptr, 8)
	if b == nil {
		return nil, wasiFault
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > wideAddress {
		return nil, wasiInvalid
	}
	if b = at(memory, uint64(binary.LittleEndian.Uint32(b)), int(n)); b == nil {
		return nil, wasiFault
	}
	return b, wasiOK
}

// vectors are the parts of memory that count vectors at ptr name.
func vectors(memory []byte, ptr, count uint64) ([][]byte, errno) {
	n := uint32(count)
	if n > maxVectors {
		return nil, wasiInvalid
	}
	list := at(memory, ptr, int(n)*8)
	if list == nil {
		return nil, wasiFault
	}
	parts := make([][]byte, 0, n)
	for ; len(list) > 0; list = list[8:] {
		part := at(memory, uint64(binary.LittleEndian.Uint32(list)), int(binary.LittleEndian.Uint32(list[4:])))
		if part == nil {
			return nil, wasiFault
		}
		parts = append(parts, part)
	}
	return parts, wasiOK
}

const maxVectors = 1024
