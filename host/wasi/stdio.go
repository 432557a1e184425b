package wasi

import "encoding/binary"

// Standard input, output and error, the descriptors 0 to 2.

// isStdio reports whether fd is a standard descriptor.
func isStdio(fd uint64) bool { return uint32(fd) <= 2 }

// onStdio returns h for standard descriptors. There are no others.
func onStdio(h handler) handler {
	return func(c *Call, memory []byte, args []uint64) errno {
		if !isStdio(args[0]) {
			return errBadFD
		}
		return h(c, memory, args)
	}
}

const (
	characterDevice = 2  // a filetype
	fdstatSize      = 24 // u8 filetype; 2 u16 flags; 8 u64 rights; 16 u64 inheriting rights
	filestatSize    = 64 // u64 device; 8 u64 inode; 16 u8 filetype; 24 u64 links; then size and three times
)

func fdstat(_ *Call, memory []byte, args []uint64) errno {
	b := slice(memory, args[1], fdstatSize)
	if b == nil {
		return errFault
	}
	clear(b)
	b[0] = characterDevice
	rights := uint64(1 << 6) // fd_write
	if uint32(args[0]) == 0 {
		rights = 1 << 1 // fd_read
	}
	binary.LittleEndian.PutUint64(b[8:], rights)
	return success
}

func filestat(_ *Call, memory []byte, args []uint64) errno {
	b := slice(memory, args[1], filestatSize)
	if b == nil {
		return errFault
	}
	clear(b)
	b[16] = characterDevice
	return success
}

func fdRead(_ *Call, memory []byte, args []uint64) errno {
	if uint32(args[0]) != 0 {
		return errBadFD
	}
	return put32(memory, args[3], 0)
}

func fdWrite(c *Call, memory []byte, args []uint64) errno {
	if fd := uint32(args[0]); fd != 1 && fd != 2 {
		return errBadFD
	}
	parts, e := vectors(memory, args[1], args[2])
	if e != success {
		return e
	}
	written := 0
	for _, b := range parts {
		written += len(b)
		c.Host.Output(b)
	}
	return put32(memory, args[3], uint32(written))
}
