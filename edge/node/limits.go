package node

import (
	"context"
	"time"

	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// limits is host.Buckets and host.Lockouts, on the node's own disk.
type limits struct {
	store   *local.Store
	spender *spender
}

// Take implements host.Buckets. It never waits for the origin, which hears of
// it afterwards.
func (l limits) Take(_ context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	bucket, tell, err := l.store.Buckets.Take(keyID, perMinute)
	l.spender.note(keyID, tell)
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
