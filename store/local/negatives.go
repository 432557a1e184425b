package local

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Negatives remembers for a short while which keys the origin does not know,
// in memory only, so that a client that insists costs the origin little. It has
// its own bound: unknown keys never push out a known one.
type Negatives struct {
	ttl time.Duration
	max int
	now func() time.Time

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
	order [][sha256.Size]byte // as they were added, which is as they end
	turn  uint64
}

func newNegatives(ttl time.Duration, most int, now func() time.Time) *Negatives {
	return &Negatives{ttl: ttl, max: most, now: now, until: map[[sha256.Size]byte]time.Time{}}
}

// Has tells whether the key with this hash was unknown a moment ago.
func (n *Negatives) Has(hash [sha256.Size]byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	until, ok := n.until[hash]
	return ok && n.now().Before(until)
}

// Turn is to be taken before the origin is asked, and given to Add.
func (n *Negatives) Epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.turn
}

// Add remembers that the origin did not know this hash; nothing, when Clear was
// called since turn: the key may have come into being.
func (n *Negatives) Add(hash [sha256.Size]byte, turn uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if turn != n.turn {
		return
	}
	now := n.now()
	for len(n.order) > 0 && (len(n.order) >= n.max || !now.Before(n.until[n.order[0]])) {
		delete(n.until, n.order[0])
		n.order = n.order[1:]
	}
	if _, ok := n.until[hash]; !ok {
		n.order = append(n.order, hash)
		n.until[hash] = now.Add(n.ttl)
	}
}

// Clear forgets all: a key has been made or changed.
func (n *Negatives) Clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn++
	n.order = nil
	clear(n.until)
}
