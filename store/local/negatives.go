package local

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Negatives remembers for a short while which keys the origin does not know, so
// that a client that insists costs the origin little. It is in memory only and
// has a bound of its own: unknown keys never evict a known one.
type Negatives struct {
	ttl time.Duration
	max int
	now func() time.Time

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
	order [][sha256.Size]byte // in the order they were added, which is the order they expire
	epoch uint64
}

func newNegatives(ttl time.Duration, most int, now func() time.Time) *Negatives {
	return &Negatives{ttl: ttl, max: most, now: now, until: map[[sha256.Size]byte]time.Time{}}
}

// Has reports whether the origin did not know the key with this hash a moment ago.
func (n *Negatives) Has(hash [sha256.Size]byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	until, ok := n.until[hash]
	return ok && n.now().Before(until)
}

// Epoch returns the number of calls of Clear. Callers read it before they ask the
// origin and hand it to Add.
func (n *Negatives) Epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch
}

// Add remembers that the origin did not know this hash, unless Clear was called
// since epoch was read: the key may have been made meanwhile.
func (n *Negatives) Add(hash [sha256.Size]byte, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if epoch != n.epoch {
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

// Clear forgets all keys, because one was made or changed.
func (n *Negatives) Clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
	n.order = nil
	clear(n.until)
}
