package wasi

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// poll_oneoff reads subscriptions of 48 bytes and writes events of 32.
//
//	subscription  0 u64 user data; 8 u8 kind;
//	              clock: 16 u32 id; 24 u64 timeout; 40 u16 flags (1: absolute)
//	              read, write: 16 u32 descriptor
//	event         0 u64 user data; 8 u16 errno; 10 u8 kind; 16 u64 bytes; 24 u16 flags
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024

	kindClock = 0
	kindRead  = 1
	kindWrite = 2
)

// subscription is one subscription as it lies in memory.
type subscription []byte

func (s subscription) kind() byte { return s[8] }
func (s subscription) fd() uint32 { return binary.LittleEndian.Uint32(s[16:]) }

// events are the events that poll_oneoff has written.
type events struct {
	out   []byte
	count uint32
}

func (e *events) add(s subscription, err errno) {
	b := e.out[e.count*eventSize:][:eventSize]
	clear(b)
	copy(b, s[:8])
	binary.LittleEndian.PutUint16(b[8:], uint16(err))
	b[10] = s.kind()
	e.count++
}

// poll reports what is ready at once. Only when nothing is, it waits for a socket
// or the nearest clock.
func poll(c *Call, memory []byte, args []uint64) errno {
	n := uint32(args[2])
	if n == 0 || n > maxSubscriptions {
		return errInvalid
	}
	in, out := slice(memory, args[0], int(n)*subscriptionSize), slice(memory, args[1], int(n)*eventSize)
	if in == nil || out == nil {
		return errFault
	}
	ready, nearest := events{out: out}, time.Duration(math.MaxInt64)
	var clocks, sockets []subscription
	// Events may lie over subscriptions: all are copied before the first is written.
	for s := subscription(bytes.Clone(in)); len(s) > 0; s = s[subscriptionSize:] {
		switch s.kind() {
		case kindClock:
			clocks = append(clocks, s)
			if left := c.timeLeft(s); left > 0 {
				nearest = min(nearest, left)
			} else {
				ready.add(s, success)
			}
		case kindRead, kindWrite:
			switch {
			case isStdio(uint64(s.fd())):
				ready.add(s, success)
			case c.sockets.has(s.fd()):
				sockets = append(sockets, s)
			default:
				ready.add(s, errBadFD)
			}
		default:
			return errInvalid
		}
	}
	if ready.count > 0 {
		nearest = 0
	}
	if len(sockets) > 0 {
		c.pollSockets(sockets, nearest, &ready)
	} else if ready.count == 0 {
		c.Host.Sleep(nearest)
	}
	// An absolute timeout is over when its clock says so, a relative one when it was
	// the nearest.
	for _, within := range [...]time.Duration{0, nearest} {
		if ready.count > 0 {
			break
		}
		for _, s := range clocks {
			if c.timeLeft(s) <= within {
				ready.add(s, success)
			}
		}
	}
	return put32(memory, args[3], ready.count)
}

// timeLeft returns how long a clock's subscription still waits.
func (c *Call) timeLeft(s subscription) time.Duration {
	timeout := binary.LittleEndian.Uint64(s[24:])
	if binary.LittleEndian.Uint16(s[40:])&1 != 0 {
		now := c.Host.Clock(binary.LittleEndian.Uint32(s[16:]) == clockRealtime)
		if timeout <= now {
			return 0
		}
		timeout -= now
	}
	return time.Duration(min(timeout, math.MaxInt64))
}
