package host

import (
	"encoding/binary"
	"math"
	"time"
)

// poll_oneoff: subscriptions of 48 bytes, events of 32.
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

// poll answers what is ready at once; only when nothing is, it sleeps until a
// socket is, or the nearest clock, or the call's wall deadline ends the call.
func poll(c *call, memory []byte, args []uint64) errno {
	n := uint32(args[2])
	if n == 0 || n > maxSubscriptions {
		return wasiInvalid
	}
	in, out := at(memory, args[0], int(n)*subscriptionSize), at(memory, args[1], int(n)*eventSize)
	if in == nil || out == nil {
		return wasiFault
	}
	nearest, events := time.Duration(math.MaxInt64), uint32(0)
	ready := func(sub []byte, e errno) {
		event := out[events*eventSize:][:eventSize]
		clear(event)
		copy(event, sub[:8])
		binary.LittleEndian.PutUint16(event[8:], uint16(e))
		event[10] = sub[8]
		events++
	}
	// Events may lie over subscriptions: read all before the first is written.
	subs := append([]byte(nil), in...)
	var sockets [][]byte
	for s := subs; len(s) > 0; s = s[subscriptionSize:] {
		switch s[8] {
		case kindClock:
			if left := c.timeLeft(s); left > 0 {
				nearest = min(nearest, left)
			} else {
				ready(s, wasiOK)
			}
		case kindRead, kindWrite:
			switch fd := binary.LittleEndian.Uint32(s[16:]); {
			case isStdio(uint64(fd)):
				ready(s, wasiOK)
			case c.sockets.has(fd):
				sockets = append(sockets, s[:subscriptionSize])
			default:
				ready(s, wasiBadFD)
			}
		default:
			return wasiInvalid
		}
	}
	if events > 0 {
		nearest = 0
	}
	if len(sockets) > 0 {
		c.pollSockets(sockets, nearest, ready)
	} else if events == 0 {
		c.sleep(nearest)
	}
	clocks := func(d time.Duration) {
		for s := subs; len(s) > 0; s = s[subscriptionSize:] {
			if s[8] == kindClock && c.timeLeft(s) <= d {
				ready(s, wasiOK)
			}
		}
	}
	if events == 0 {
		clocks(0)
	}
	if events == 0 { // a relative timeout, which has no end to look at
		clocks(nearest)
	}
	return put32(memory, args[3], events)
}

// timeLeft is how long a clock subscription still sleeps.
func (c *call) timeLeft(sub []byte) time.Duration {
	timeout := binary.LittleEndian.Uint64(sub[24:])
	if binary.LittleEndian.Uint16(sub[40:])&1 != 0 {
		now := c.clock(binary.LittleEndian.Uint32(sub[16:]))
		if timeout <= now {
			return 0
		}
		timeout -= now
	}
	return time.Duration(min(timeout, math.MaxInt64))
}

// sleep sleeps for d, which does not count as computing.
func (c *call) sleep(d time.Duration) {
	if c.warm != nil {
		c.warm.elapsed += d
		return
	}
	start := c.m.runtime.elapsed()
	left := c.wall - start
	timer := time.NewTimer(min(d, max(left, 0)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.parent.Done():
		c.stop(contextReason(c.parent.Err()), nil)
	}
	if d >= left {
		c.stop(WallDeadline, nil)
	}
	c.inHost += c.m.runtime.elapsed() - start
}
