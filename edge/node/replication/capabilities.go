package replication

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"partneredge/host"
	"partneredge/store/local"
	"partneredge/store/valid"
	"partneredge/wasm/abi"
)

// keys implements host.Keys on the replica. A key that is not held is asked for;
// one that cannot be looked up is unavailable, never unknown.
type keys struct {
	*replica
	sync    *synchronizer
	lookups *lookups
}

// AppendKey implements host.Keys.
func (k keys) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	hash := local.KeyName(token)
	before, _ := ctx.Value(lookupKey{}).(*lookup)
	found := before != nil && before.hash == hash
	if found && before.err != nil {
		return dst, before.err
	}
	k.sync.state.wait(ctx)
	rec, current := k.current(hash)
	if current && !found {
		k.Counters.Keys("hit", 1)
	}
	if !current {
		var err error
		if rec, err = k.find(ctx, netip.Addr{}, hash); err != nil {
			return dst, err
		}
	}
	return append(dst, rec.Frame...), nil
}

// current returns a key that is held and may be served as it is.
func (k keys) current(hash string) (rec local.Record, current bool) {
	rec, held := k.Store.Keys.Get(hash)
	return rec, held && !rec.Stale() && k.sync.trusts(rec)
}

// find asks the origin for a key, unless another request's lookup has just brought it.
func (k keys) find(ctx context.Context, client netip.Addr, hash string) (local.Record, error) {
	rec, current := k.current(hash)
	_, held := k.Store.Keys.Get(hash)
	switch {
	case current:
		return rec, nil
	case held:
		k.Counters.Keys("stale", 1)
		return k.fetch(ctx, wanted{name: keyPrefix + hash})
	case k.Store.Negatives.Has([32]byte([]byte(hash))):
		k.Counters.Keys("negative", 1)
		return local.Record{}, host.ErrNotFound
	default:
		k.Counters.Keys("miss", 1)
		return k.guess(ctx, client, hash)
	}
}

// limits implements host.Buckets and host.Lockouts on the local store.
type limits struct{ *reporter }

// Take implements host.Buckets. It never waits for the origin, which gets a
// report afterwards. An id that no key can have is malformed: it would be kept on disk,
// counted and reported.
func (l limits) Take(ctx context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	if err := valid.IDs("key", keyID); err != nil {
		return abi.Bucket{}, fmt.Errorf("spend a token: %w: %w", abi.ErrFrame, err)
	}
	if l.Store.Buckets.Busy() {
		host.BeforeWaiting(ctx)
	}
	bucket, report, err := l.Store.Buckets.Take(keyID, perMinute)
	l.note(keyID, report)
	if err == nil {
		l.usage.count(keyID, !bucket.Allowed)
	}
	return bucket, err
}

// Lockout implements host.Lockouts.
func (l limits) Lockout(_ context.Context, client string) (time.Duration, error) {
	return l.Store.Lockouts.Lockout(client), nil
}

// Failure implements host.Lockouts.
func (l limits) Failure(_ context.Context, client string) (time.Duration, error) {
	return l.Store.Lockouts.Failure(client)
}
