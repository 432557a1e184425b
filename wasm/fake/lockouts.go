package fake

import (
	"net/netip"
	"strings"

	"partneredge/wasm/abi"
)

// LockoutRule says when an address is locked out: at Failures failed
// authentications within Window, for Length; both in microseconds. A zero field
// means its default: 20, 5 minutes, 15 minutes.
type LockoutRule struct {
	Failures       int
	Window, Length int64
}

// failures of one address.
type failures struct {
	at    []int64 // newest last, none older than the window when one is added
	until int64   // locked out until then
}

// Lockout is for how many milliseconds the client is still locked out.
func (w *Backend) Lockout(client string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing(abi.OpLockout); err != nil {
		return 0, err
	}
	f := w.failures[network(client)]
	if f == nil {
		return 0, nil
	}
	return millis(f.until - w.now()), nil
}

// Failure counts a failed authentication.
func (w *Backend) Failure(client string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing(abi.OpFailure); err != nil {
		return 0, err
	}
	most, window, length := w.Lockouts.Failures, w.Lockouts.Window, w.Lockouts.Length
	if most == 0 {
		most = 20
	}
	if window == 0 {
		window = 5 * Minute
	}
	if length == 0 {
		length = 15 * Minute
	}

	now, name := w.now(), network(client)
	f := w.failures[name]
	if f == nil {
		f = &failures{}
		w.failures[strings.Clone(name)] = f
	}
	for len(f.at) > 0 && f.at[0] <= now-window {
		f.at = f.at[1:]
	}
	f.at = append(f.at, now)
	if len(f.at) >= most {
		f.at, f.until = nil, now+length
	}
	return millis(f.until - now), nil
}

// network is what is locked out for a client: its address, or the /64 it is in,
// which one IPv6 user has to himself.
func network(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil || addr.Unmap().Is4() {
		return client
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return client
	}
	return prefix.String()
}

// millis rounds up, so that a wait is never told too short.
func millis(micros int64) int64 {
	if micros <= 0 {
		return 0
	}
	return (micros + 999) / 1000
}
