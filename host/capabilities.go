package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"partneredge/wasm/abi"
)

// Errors that a capability may return (wrapped); the guest sees the abi.Code
// beside each. ErrInvalid is logged too, once for each operation of a module. Any other error is
// logged each time and becomes abi.CodeFailed, but for context.Canceled of a call whose client
// has hung up, which is not logged and becomes abi.CodeUnavailable.
var (
	ErrNotFound    = errors.New("not found")     // abi.CodeNotFound
	ErrUnavailable = errors.New("unavailable")   // abi.CodeUnavailable
	ErrLimit       = errors.New("limit reached") // abi.CodeLimit
	ErrInvalid     = errors.New("invalid")       // abi.CodeInvalid: the module asks for what cannot be
)

// BeforeWaiting tells the host that the calling capability is about to block, such as on a
// lock that others hold. A guest's call is locked to its OS thread, and to block there costs
// two switches of threads: until the capability returns, its goroutine is unlocked instead.
// Call it with the context that the capability was called with, on the same goroutine. Only
// Keys, Views, Buckets and Lockouts.Lockout need it: the others often block, and are always
// called unlocked.
func BeforeWaiting(ctx context.Context) {
	if c, ok := ctx.Value(waitingKey{}).(*capContext); ok {
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		if !ended {
			c.call.pause()
		}
	}
}

type waitingKey struct{}

// Capabilities holds all that a module may be granted. A module reaches one only if its
// manifest names it; a nil one is as good as not granted. They are called for many
// requests at once, with a context that ends with the request. Append… methods add a
// frame to dst and return it.
type Capabilities struct {
	Keys          Keys
	Buckets       Buckets
	Lockouts      Lockouts
	Views         Views
	Subscriptions Subscriptions
	Outbox        Outbox
	// Routes are the endpoints of the release, for its gate. They are data: a module
	// that is granted them gets those that it was opened with.
	Routes abi.Routes
}

// Keys finds API keys.
type Keys interface {
	// AppendKey adds the abi.Key frame of the key with this plaintext.
	AppendKey(ctx context.Context, dst, token []byte) ([]byte, error)
}

// Buckets spends rate-limit tokens.
type Buckets interface {
	// Take spends a token of the key's bucket and returns what is left.
	Take(ctx context.Context, keyID string, perMinute int) (abi.Bucket, error)
}

// Lockouts counts failed authentications by client address.
type Lockouts interface {
	// Lockout returns for how long the address is locked out, 0 when it is not.
	Lockout(ctx context.Context, client string) (time.Duration, error)
	// Failure counts a failed authentication and returns what Lockout then does.
	Failure(ctx context.Context, client string) (time.Duration, error)
}

// Views reads the account of a principal. As everywhere here, the principal's texts are valid
// until the call returns: the next request overwrites them. Whatever the limit, there are at
// most abi.MaxInsights and abi.MaxFirings items.
type Views interface {
	AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error)
	AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error)
	AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error)
}

// Subscriptions makes and revokes webhook subscriptions for a principal.
type Subscriptions interface {
	// Subscribe returns the reason why the target was refused, "" if it was not.
	Subscribe(ctx context.Context, p abi.Principal, s *abi.Subscription) (reason string, err error)
	// SubscribeOnce is Subscribe unless the idempotency key was used before.
	SubscribeOnce(ctx context.Context, p abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error)
	// Revoke reports whether the subscription had been revoked before.
	Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error)
}

// Outbox keeps leads for a principal until the origin has them.
type Outbox interface {
	// AppendLead returns once the lead is on disk. frame is an abi.Lead frame; it must
	// be copied if it is kept.
	AppendLead(ctx context.Context, p abi.Principal, frame []byte) error
	// LeadOnce returns once the lead is on disk, or was kept before under the same
	// idempotency key. It chooses the lead's id, whatever that in once is. With a test key
	// it keeps nothing, and answers alike.
	LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error)
}

// grant holds the capabilities of a module and the operations that it may call.
type grant struct {
	caps       Capabilities
	operations uint64 // a bit for each abi.Op
}

// newGrant grants the operations that the manifest names and caps can do.
func newGrant(manifest Manifest, caps Capabilities) *grant {
	available := map[abi.Capability]bool{
		abi.Keys: caps.Keys != nil, abi.Buckets: caps.Buckets != nil, abi.Lockouts: caps.Lockouts != nil,
		abi.Views: caps.Views != nil, abi.Subscriptions: caps.Subscriptions != nil, abi.Outbox: caps.Outbox != nil,
	}
	available[abi.RouteTable] = true // without any, the table is empty
	named := map[abi.Capability]bool{}
	for _, c := range manifest.Capabilities {
		named[c] = available[c]
	}
	g := &grant{caps: caps}
	for op := range abi.Op(64) {
		if named[op.Needs()] {
			g.operations |= 1 << op
		}
	}
	return g
}

func (g *grant) has(op abi.Op) bool { return op >= 0 && op < 64 && g.operations&(1<<op) != 0 }

// capContext is the context of a call's capabilities: the caller's, ended at the
// call's wall deadline and with the call. The timer is only made for one who waits.
type capContext struct {
	parent   context.Context
	deadline time.Time
	call     *call

	mu    sync.Mutex
	inner context.Context // nil until someone waits
	stop  context.CancelFunc
	ended bool
}

// Deadline implements context.Context.
func (c *capContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *capContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.stop = context.WithDeadline(c.parent, c.deadline)
		if c.ended {
			c.stop()
		}
	}
	return c.inner.Done()
}

// Err implements context.Context.
func (c *capContext) Err() error {
	c.mu.Lock()
	inner, ended := c.inner, c.ended
	c.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case ended:
		return context.Canceled
	case time.Now().After(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (c *capContext) Value(key any) any {
	if key == (waitingKey{}) {
		return c
	}
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

func (c *capContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.stop != nil {
		c.stop()
	}
}
