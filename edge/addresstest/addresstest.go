// Package addresstest gives tests addresses on loopback at which they may stop listening, and
// listen again.
package addresstest

import (
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// The ports that Fixed gives lie below those of every system's listeners
// on port 0 (Linux: from 32768 on, others: from 49152 on), so nobody is given
// one while what listens there is being started again.
const (
	firstPort = 12000
	lastPort  = 32000
	portStep  = 50 // between two test processes that start one after the other
)

var (
	portsGiven atomic.Int64
	// claims keeps what claim returned until the process ends.
	claims struct {
		sync.Mutex
		held []net.PacketConn
	}
)

// Fixed returns an address on loopback for what must listen at the same
// address before and after a restart, or where a document says. No other call
// returns it as long as this process runs, be it of another process.
func Fixed(t testing.TB) string {
	t.Helper()
	for range lastPort - firstPort {
		offset := (int64(os.Getpid())*portStep + portsGiven.Add(1)) % (lastPort - firstPort)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(firstPort+offset, 10))
		if claim(address) {
			return address
		}
	}
	t.Fatal("no port is free below those of listeners on port 0")
	return ""
}

// claim reports whether nobody listens on address, and keeps other calls of Fixed from it:
// as long as this process runs it has the UDP port of the same number, which no test uses.
func claim(address string) bool {
	mark, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		mark.Close()
		return false
	}
	l.Close()
	claims.Lock()
	claims.held = append(claims.held, mark)
	claims.Unlock()
	return true
}
