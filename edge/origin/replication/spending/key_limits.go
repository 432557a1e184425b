package spending

import (
	"context"
	"fmt"
	"sync"
	"time"

	"partneredge/edge/wire"
	"partneredge/store/central"
)

// limitFor is for how long a key's limit is believed without a look at the
// database. A limit never changes; a key that was revoked meanwhile is counted
// for that much longer, which harms nobody.
const limitFor = 10 * time.Minute

// noneKept bounds the ids that are known to be no key's, which a node can make up. With one
// more, all are forgotten.
const noneKept = 5 * wire.MaxSpendKeys

// keyLimits knows the limits of the keys that nodes report, so that no node's
// word is taken for them.
type keyLimits struct {
	db  *central.DB
	now func() time.Time

	mu      sync.Mutex
	held    map[string]keyLimit
	older   map[string]keyLimit  // what was held before the last rotation
	none    map[string]time.Time // ids of no key, or of a revoked one, and when they were looked up
	rotated time.Time
	reads   bool // the last look at the database found it there, and was after the last rotation
}

type keyLimit struct {
	central.KeyLimit
	read time.Time
}

// of returns the limit of every key that is reported. While the database is
// away, what was read before holds, and the others are left out, with an error.
func (k *keyLimits) of(ctx context.Context, reports map[string]wire.SpentKey) (map[string]central.KeyLimit, error) {
	limits := make(map[string]central.KeyLimit, len(reports))
	var old, unknown []string
	now := k.now()
	k.mu.Lock()
	for id := range reports {
		held, ok := k.heldOf(id)
		switch {
		case !ok:
			unknown = append(unknown, id)
		case now.Sub(held.read).Abs() >= limitFor:
			old = append(old, id)
		}
		limits[id] = held.KeyLimit
	}
	k.mu.Unlock()
	if len(old)+len(unknown) == 0 {
		return limits, nil
	}
	ask := append(old, unknown...)
	read, err := k.db.KeyLimits(ctx, ask)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads = err == nil
	if err != nil {
		for _, id := range unknown {
			delete(limits, id)
		}
		if len(unknown) == 0 {
			return limits, nil
		}
		return limits, fmt.Errorf("looking up limits of %d keys: %w", len(unknown), err)
	}
	for _, id := range ask {
		limit, exists := read[id]
		limits[id] = limit
		k.hold(id, limit, exists, now)
	}
	return limits, nil
}

// heldOf returns what is held of a key: the zero limit of one that there is not, or that is
// revoked. k.mu is held.
func (k *keyLimits) heldOf(id string) (held keyLimit, ok bool) {
	if at, ok := k.none[id]; ok {
		return keyLimit{read: at}, true
	}
	if held, ok = k.held[id]; !ok {
		held, ok = k.older[id]
	}
	return held, ok
}

// hold keeps what was read of a key. k.mu is held.
func (k *keyLimits) hold(id string, limit central.KeyLimit, exists bool, now time.Time) {
	if exists {
		if k.held == nil {
			k.held = make(map[string]keyLimit)
		}
		k.held[id] = keyLimit{limit, now}
		delete(k.none, id)
		return
	}
	delete(k.held, id)
	delete(k.older, id)
	if k.none == nil || len(k.none) >= noneKept {
		k.none = make(map[string]time.Time)
	}
	k.none[id] = now
}

// forget drops what is too old to be believed, at the latest after twice limitFor, unless
// the database may be away. It looks at no single key: reports wait meanwhile.
func (k *keyLimits) forget() {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reads && now.Sub(k.rotated).Abs() >= limitFor {
		k.held, k.older, k.none, k.rotated, k.reads = nil, k.held, nil, now, false
	}
}
