package fake

import (
	"net/netip"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/network"
)

// The lockout rule: an address with maxFailures failed authentications within
// failureWindow is locked out for lockoutTime, both in microseconds.
const (
	maxFailures   = 20
	failureWindow = 5 * Minute
	lockoutTime   = 15 * Minute
)

// lockout is the state of one network.
type lockout struct {
	failures []int64 // times, newest last
	until    int64   // end of the lockout
}

// Lockout returns for how many milliseconds the client is still locked out.
func (b *Backend) Lockout(client string) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(abi.OpLockout); err != nil {
		return 0, err
	}
	l := b.lockouts[counted(client)]
	if l == nil {
		return 0, nil
	}
	return millis(l.until - b.now()), nil
}

// Failure counts a failed authentication and returns what Lockout then would.
func (b *Backend) Failure(client string) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(abi.OpFailure); err != nil {
		return 0, err
	}
	now, name := b.now(), counted(client)
	l := b.lockouts[name]
	if l == nil {
		l = &lockout{}
		b.lockouts[strings.Clone(name)] = l
	}
	for len(l.failures) > 0 && l.failures[0] <= now-failureWindow {
		l.failures = l.failures[1:]
	}
	l.failures = append(l.failures, now)
	if len(l.failures) >= maxFailures {
		l.failures, l.until = nil, now+lockoutTime
	}
	return millis(l.until - now), nil
}

// counted returns what is locked out for a client: its address, or for IPv6 the
// /64, all of which usually belongs to one user.
func counted(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return client
	}
	return network.Text(network.Own(addr))
}

// millis rounds up, so that no client is told to wait for too short a time.
func millis(micros int64) int64 { return (max(micros, 0) + 999) / 1000 }
