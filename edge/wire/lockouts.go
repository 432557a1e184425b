package wire

import "net/netip"

// MaxLockouts bounds the lockouts that one LockoutsReply lists.
const MaxLockouts = 1000

// LockoutsRequest asks a node which addresses it has locked out, or to end their
// lockouts.
type LockoutsRequest struct {
	Head
	// Network selects the addresses; the zero Prefix selects all of them.
	Network netip.Prefix `json:"network,omitzero"`
	// Clear ends their lockouts and forgets their failures.
	Clear bool `json:"clear,omitempty"`
}

// LockoutsReply lists the lockouts as they were before any was ended.
type LockoutsReply struct {
	Head
	Lockouts []Lockout `json:"lockouts,omitempty"` // the addresses that failed last first, at most MaxLockouts
	All      int       `json:"all"`                // how many there are
	Cleared  int       `json:"cleared,omitempty"`  // how many were ended
}

// Lockout is an address that a node refuses for a time.
type Lockout struct {
	Address string `json:"address"` // for IPv6 its /64
	LeftMS  int64  `json:"left_ms"` // milliseconds until it ends
}
