package hosttest

import (
	"context"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// Capabilities are everything a module may be granted, out of a
// backend of package fake. What a module gets is what its manifest names.
func Capabilities(backend *fake.Backend) host.Capabilities {
	c := capabilities{backend}
	return host.Capabilities{Keys: c, Buckets: c, Lockouts: c, Views: c, Subscriptions: c, Outbox: c}
}

type capabilities struct{ backend *fake.Backend }

func (c capabilities) AppendKey(_ context.Context, dst, token []byte) ([]byte, error) {
	key, err := c.backend.Key(string(token))
	if err != nil {
		return dst, hostError(err)
	}
	return key.Append(dst), nil
}

func (c capabilities) Take(_ context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	bucket, err := c.backend.Take(keyID, perMinute)
	return bucket, hostError(err)
}

func (c capabilities) Lockout(_ context.Context, client string) (time.Duration, error) {
	return duration(c.backend.Lockout(client))
}

func (c capabilities) Failure(_ context.Context, client string) (time.Duration, error) {
	return duration(c.backend.Failure(client))
}

func (c capabilities) AppendProfile(_ context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	profile, err := c.backend.For(p).Profile()
	if err != nil {
		return dst, hostError(err)
	}
	return profile.Append(dst), nil
}

func (c capabilities) AppendInsights(_ context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error) {
	var list abi.Insights
	if err := c.backend.For(p).Insights(since, limit, &list); err != nil {
		return dst, hostError(err)
	}
	return list.Append(dst), nil
}

func (c capabilities) AppendFirings(_ context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error) {
	var list abi.Firings
	if err := c.backend.For(p).Firings(before, limit, &list); err != nil {
		return dst, hostError(err)
	}
	return list.Append(dst), nil
}

func (c capabilities) Subscribe(_ context.Context, p abi.Principal, s *abi.Subscription) (string, error) {
	reason, err := c.backend.For(p).Subscribe(s)
	return reason, hostError(err)
}

func (c capabilities) SubscribeOnce(_ context.Context, p abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error) {
	subscribed, err := c.backend.For(p).SubscribeOnce(once)
	return subscribed, hostError(err)
}

func (c capabilities) Revoke(_ context.Context, p abi.Principal, id string) (bool, error) {
	already, err := c.backend.For(p).Revoke(id)
	return already, hostError(err)
}

func (c capabilities) AppendLead(_ context.Context, p abi.Principal, frame []byte) error {
	var lead abi.Lead
	// The frame is the guest's memory, and the backend keeps what it is given.
	if err := lead.Parse(append([]byte(nil), frame...)); err != nil {
		return err
	}
	return hostError(c.backend.For(p).Lead(&lead))
}

func (c capabilities) LeadOnce(_ context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	kept, err := c.backend.For(p).LeadOnce(once)
	return kept, hostError(err)
}

func duration(ms int64, err error) (time.Duration, error) {
	return time.Duration(ms) * time.Millisecond, hostError(err)
}

// hostError is the error of a capability for what the backend says to a guest.
func hostError(err error) error {
	switch err {
	case abi.CodeNotFound:
		return host.ErrNotFound
	case abi.CodeUnavailable:
		return host.ErrUnavailable
	case abi.CodeLimit:
		return host.ErrLimit
	}
	return err
}
