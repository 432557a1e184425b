package replication

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

// keyLimits knows the limits of the keys that nodes report, so that no node's
// word is taken for them.
type keyLimits struct {
	db  *central.DB
	now func() time.Time

	mu      sync.Mutex
	held    map[string]keyLimit
	older   map[string]keyLimit // what was held before the last rotation
	rotated time.Time
}

type keyLimit struct {
	central.KeyLimit // zero: there is no such key, or it is revoked
	read             time.Time
}

// of returns the limit of every key that is reported. While the database is
// away, what was read before holds.
func (k *keyLimits) of(ctx context.Context, reports map[string]wire.SpentKey) (map[string]central.KeyLimit, error) {
	limits := make(map[string]central.KeyLimit, len(reports))
	var old, unknown []string
	now := k.now()
	k.mu.Lock()
	for id := range reports {
		held, ok := k.held[id]
		if !ok {
			held, ok = k.older[id]
		}
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
	if err != nil {
		if len(unknown) == 0 {
			return limits, nil
		}
		return nil, fmt.Errorf("looking up limits: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = make(map[string]keyLimit)
	}
	for _, id := range ask {
		limits[id] = read[id]
		k.held[id] = keyLimit{read[id], now}
	}
	return limits, nil
}

// forget drops what is too old to be believed, at the latest after twice limitFor. It
// looks at no single key: reports wait meanwhile.
func (k *keyLimits) forget() {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.rotated).Abs() >= limitFor {
		k.held, k.older, k.rotated = nil, k.held, now
	}
}
