package replication

import (
	"context"
	"time"

	"partneredge/host"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// keys implements host.Keys on the replica. A key that is not held is asked for;
// one that cannot be looked up is unavailable, never unknown.
type keys struct {
	*replica
	sync *synchronizer
}

// AppendKey implements host.Keys.
func (k keys) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	k.sync.state.wait(ctx)
	hash := local.KeyName(token)
	rec, held := k.Store.Keys.Get(hash)
	switch {
	case held && !rec.Stale() && k.sync.trusts(rec):
		k.Counters.Keys("hit", 1)
		return append(dst, rec.Frame...), nil
	case held:
		k.Counters.Keys("stale", 1)
	case k.Store.Negatives.Has([32]byte([]byte(hash))):
		k.Counters.Keys("negative", 1)
		return dst, host.ErrNotFound
	default:
		k.Counters.Keys("miss", 1)
	}
	rec, err := k.fetch(ctx, keyPrefix+hash)
	if err != nil {
		return dst, err
	}
	return append(dst, rec.Frame...), nil
}

// limits implements host.Buckets and host.Lockouts on the local store.
type limits struct{ *reporter }

// Take implements host.Buckets. It never waits for the origin, which gets a
// report afterwards.
func (l limits) Take(_ context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	bucket, report, err := l.Store.Buckets.Take(keyID, perMinute)
	l.note(keyID, report)
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
