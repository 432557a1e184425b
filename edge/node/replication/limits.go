package replication

import (
	"context"
	"time"

	"partneredge/store/local"
	"partneredge/wasm/abi"
)

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
