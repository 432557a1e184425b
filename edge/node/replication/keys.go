package replication

import (
	"context"

	"partneredge/host"
	"partneredge/store/local"
)

// keys implements host.Keys on the replica. A key that is not held is asked for;
// one that cannot be looked up is unavailable, never unknown.
type keys struct {
	store   *local.Store
	replica *replica
	sync    *synchronizer
	count   func(outcome string)
}

// AppendKey implements host.Keys.
func (k *keys) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	k.sync.state.wait(ctx)
	hash := local.KeyName(token)
	rec, held := k.store.Keys.Get(hash)
	switch {
	case held && !rec.Stale() && k.sync.trusts(rec):
		k.count("hit")
		return append(dst, rec.Frame...), nil
	case held:
		k.count("stale")
	case k.store.Negatives.Has([32]byte([]byte(hash))):
		k.count("negative")
		return dst, host.ErrNotFound
	default:
		k.count("miss")
	}
	rec, err := k.replica.fetch(ctx, keyPrefix+hash)
	if err != nil {
		return dst, err
	}
	return append(dst, rec.Frame...), nil
}
