package host

import (
	"context"
	"errors"
	"time"

	"partneredge/wasm/abi"
)

// Errors that a capability may return (wrapped); the guest sees the abi.Code
// beside each. Any other error is logged and becomes abi.CodeFailed.
var (
	ErrNotFound    = errors.New("not found")     // abi.CodeNotFound
	ErrUnavailable = errors.New("unavailable")   // abi.CodeUnavailable
	ErrLimit       = errors.New("limit reached") // abi.CodeLimit
)

// Capabilities are what a module may be granted. A module reaches one only if
// its manifest names it; a nil one is as good as not granted. They are called
// from many requests at once. Append… methods add a frame to dst and
// return it.
type Capabilities struct {
	Keys          Keys
	Buckets       Buckets
	Lockouts      Lockouts
	Views         Views
	Subscriptions Subscriptions
	Outbox        Outbox
}

// Keys finds API keys.
type Keys interface {
	// AppendKey adds the abi.Key frame of the key with this plaintext.
	AppendKey(ctx context.Context, dst, token []byte) ([]byte, error)
}

// Buckets spends rate-limit tokens.
type Buckets interface {
	Take(ctx context.Context, keyID string, perMinute int) (abi.Bucket, error)
}

// Lockouts counts failed authentications by client address. Both return for
// how long the address is locked out, 0 when it is not.
type Lockouts interface {
	Lockout(ctx context.Context, client string) (time.Duration, error)
	Failure(ctx context.Context, client string) (time.Duration, error)
}

// Views reads the account of a principal.
type Views interface {
	AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error)
	AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error)
	AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error)
}

// Subscriptions makes and revokes webhook subscriptions for a principal.
type Subscriptions interface {
	// Subscribe returns the reason why the target was refused, "" if made.
	Subscribe(ctx context.Context, p abi.Principal, s *abi.Subscription) (reason string, err error)
	// Revoke tells whether the subscription had been revoked before.
	Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error)
}

// Outbox keeps leads for a principal until the origin has them.
type Outbox interface {
	// AppendLead returns once the lead is on disk. frame is an abi.Lead frame;
	// it must be copied if it is kept.
	AppendLead(ctx context.Context, p abi.Principal, frame []byte) error
	// LeadOnce returns once the lead is on disk, or was kept before under the
	// same idempotency key. With a test key it keeps nothing, and answers alike.
	LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error)
}
