package node

import (
	"context"
	"errors"

	"partneredge/host"
	"partneredge/store/local"
)

// keys is host.Keys: what is held is served from here, what is not is asked
// for. A key that cannot be looked up is unavailable, never unknown.
type keys struct {
	store  *local.Store
	copies *copies
	follow *follower
	count  func(outcome string) // hit, miss, stale, negative
}

// AppendKey implements host.Keys.
func (k *keys) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	k.follow.ready(ctx)
	name := local.KeyName(token)
	rec, held := k.store.Keys.Get(name)
	switch {
	case held && !rec.Stale() && k.follow.trusts(rec):
		k.count("hit")
		return append(dst, rec.Frame...), nil
	case held:
		k.count("stale")
	case k.store.Negatives.Has([32]byte([]byte(name))):
		k.count("negative")
		return dst, host.ErrNotFound
	default:
		k.count("miss")
	}
	rec, err := k.copies.key(ctx, name)
	if err != nil {
		return dst, err
	}
	return append(dst, rec.Frame...), nil
}

func isNotFound(err error) bool { return errors.Is(err, host.ErrNotFound) }
