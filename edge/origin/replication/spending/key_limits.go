package spending

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// limitFor is for how long a key's limit is believed without a look at the
// database. A limit never changes; a key that was revoked meanwhile is counted
// for that much longer, until its next report, which harms nobody.
const limitFor = 10 * time.Minute

const (
	lookTime  = time.Second      // for how long a report waits for the database
	renewTime = 10 * time.Second // for how long a look at it takes at most that no report waits for
	// lookAgain is the time after a failure in which the database is not looked at again.
	lookAgain = time.Second
)

// noneKept bounds the ids that are known to be no key's, which a node can make up. With one
// more, all are forgotten.
const noneKept = 5 * wire.MaxSpendKeys

// keyLimits knows the limits of the keys that nodes report, so that no node's
// word is taken for them.
type keyLimits struct {
	read  func(ctx context.Context, ids []string) (map[string]central.KeyLimit, error) // from the database
	now   func() time.Time
	noted signal.Signal // there are old ones

	mu      sync.Mutex
	held    map[string]keyLimit
	older   map[string]keyLimit  // what was held before the last rotation
	none    map[string]time.Time // ids of no key, or of a revoked one, and when they were looked up
	rotated time.Time
	old     map[string]struct{} // ids that run is to look up, noneKept at most
	failure error               // of a look that the database was away for; nil: the last one found it there
	failed  time.Time           // when
	reads   bool                // the last look found the database there, and was after the last rotation
}

type keyLimit struct {
	central.KeyLimit
	read time.Time
}

// of returns the limit of every key that is reported. What was read before holds, and is
// looked up behind once it is old. While the database is away the others are left out, with
// an error.
func (k *keyLimits) of(ctx context.Context, reports map[string]wire.SpentKey) (map[string]central.KeyLimit, error) {
	limits := make(map[string]central.KeyLimit, len(reports))
	var old, unknown []string
	now := k.now()
	k.mu.Lock()
	for id := range reports {
		held, ok := k.heldOf(id)
		if !ok {
			unknown = append(unknown, id)
			continue
		}
		limits[id] = held.KeyLimit
		if now.Sub(held.read).Abs() >= limitFor {
			old = append(old, id)
		}
	}
	k.renewLater(old)
	k.mu.Unlock()
	if len(unknown) == 0 {
		return limits, nil
	}
	read, err := k.lookSoon(ctx, unknown)
	if err != nil {
		k.mu.Lock()
		k.renewLater(unknown) // it may answer, and take longer than a report waits
		k.mu.Unlock()
		return limits, fmt.Errorf("looking up limits of %d keys: %w", len(unknown), err)
	}
	for _, id := range unknown {
		limits[id] = read[id]
	}
	return limits, nil
}

// renewLater has run look up ids. k.mu is held.
func (k *keyLimits) renewLater(ids []string) {
	if len(ids) == 0 {
		return
	}
	if k.old == nil {
		k.old = make(map[string]struct{})
	}
	for _, id := range ids {
		if len(k.old) < noneKept {
			k.old[id] = struct{}{}
		}
	}
	k.noted.Send()
}

// run looks up what is old, until ctx ends.
func (k *keyLimits) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.noted:
			for k.renew(ctx) {
			}
		}
	}
}

// renew looks up some of what is old, and reports whether there may be more. With a failure,
// after which it pauses, the next report of a key notes it again.
func (k *keyLimits) renew(ctx context.Context) (more bool) {
	var ids []string
	k.mu.Lock()
	for id := range k.old {
		if len(ids) == wire.MaxSpendKeys {
			break
		}
		ids = append(ids, id)
		delete(k.old, id)
	}
	k.mu.Unlock()
	if len(ids) == 0 {
		return false
	}
	if _, err := k.look(ctx, ids, renewTime); err != nil {
		_ = backoff.Pause(ctx, lookAgain)
		return false
	}
	return true
}

// lookSoon is look for a report, which does not wait for long. Soon after the database was away
// it fails at once.
func (k *keyLimits) lookSoon(ctx context.Context, ids []string) (map[string]central.KeyLimit, error) {
	k.mu.Lock()
	failure, failed := k.failure, k.failed
	k.mu.Unlock()
	if failure != nil && time.Since(failed) < lookAgain {
		return nil, failure
	}
	return k.look(ctx, ids, lookTime)
}

// look reads the limits of keys from the database, and holds them.
func (k *keyLimits) look(ctx context.Context, ids []string, most time.Duration) (map[string]central.KeyLimit, error) {
	timed, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	now := k.now()
	read, err := k.read(timed, ids)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads = err == nil
	switch {
	case err == nil:
		k.failure = nil
	case ctx.Err() != nil: // it was cut short
	case timed.Err() != nil, errors.Is(err, store.ErrUnavailable):
		k.failure, k.failed = err, time.Now()
	}
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		limit, exists := read[id]
		k.hold(id, limit, exists, now)
	}
	return read, nil
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
