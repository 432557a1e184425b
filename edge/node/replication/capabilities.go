package replication

import (
	"context"
	"time"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// keys implements host.Keys on the replica. A key that is not held is asked for;
// one that cannot be looked up is unavailable, never unknown.
type keys struct {
	store   *local.Store
	replica *replica
	sync    *synchronizer
	count   func(outcome string, n int)
}

// AppendKey implements host.Keys.
func (k *keys) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	k.sync.state.wait(ctx)
	hash := local.KeyName(token)
	rec, held := k.store.Keys.Get(hash)
	switch {
	case held && !rec.Stale() && k.sync.trusts(rec):
		k.count("hit", 1)
		return append(dst, rec.Frame...), nil
	case held:
		k.count("stale", 1)
	case k.store.Negatives.Has([32]byte([]byte(hash))):
		k.count("negative", 1)
		return dst, host.ErrNotFound
	default:
		k.count("miss", 1)
	}
	rec, err := k.replica.fetch(ctx, keyPrefix+hash)
	if err != nil {
		return dst, err
	}
	return append(dst, rec.Frame...), nil
}

// limits implements host.Buckets and host.Lockouts on the local store.
type limits struct {
	store    *local.Store
	reporter *reporter
}

// Take implements host.Buckets. It never waits for the origin, which gets a
// report afterwards.
func (l limits) Take(_ context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	bucket, report, err := l.store.Buckets.Take(keyID, perMinute)
	l.reporter.note(keyID, report)
	return bucket, err
}

// Lockout implements host.Lockouts.
func (l limits) Lockout(_ context.Context, client string) (time.Duration, error) {
	return l.store.Lockouts.Lockout(client), nil
}

// Failure implements host.Lockouts.
func (l limits) Failure(_ context.Context, client string) (time.Duration, error) {
	return l.store.Lockouts.Failure(client)
}

// subscriptions implements host.Subscriptions by requests to the origin.
type subscriptions struct {
	link    *link.Link
	timeout time.Duration
}

// Subscribe implements host.Subscriptions.
func (s subscriptions) Subscribe(ctx context.Context, p abi.Principal, sub *abi.Subscription) (reason string, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.SubscribeReply
	err = s.link.Ask(within, wire.VerbSubscribe, &wire.SubscribeRequest{Subscription: subscriptionOf(p, sub)}, &reply)
	return reply.Reason, err
}

// Revoke implements host.Subscriptions.
func (s subscriptions) Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.RevokeReply
	err = s.link.Ask(within, wire.VerbRevoke, &wire.RevokeRequest{AccountID: p.AccountID, ID: id}, &reply)
	return reply.Already, err
}
