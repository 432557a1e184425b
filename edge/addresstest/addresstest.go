// Package addresstest gives tests addresses on loopback at which they may stop listening, and
// listen again.
package addresstest

import (
	"net"
	"os"
	"strconv"
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

var portsGiven atomic.Int64

// Fixed returns an address on loopback for what must listen at the same
// address before and after a restart, or where a document says.
func Fixed(t testing.TB) string {
	t.Helper()
	for range 200 {
		offset := (int64(os.Getpid())*portStep + portsGiven.Add(1)) % (lastPort - firstPort)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(firstPort+offset, 10))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free below those of listeners on port 0")
	return ""
}
