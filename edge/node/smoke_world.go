package node

import (
	"context"
	"sync/atomic"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// smokeWorld stands between a release's modules and the node. While it is on,
// which is before the release serves anybody, every capability answers out of a
// made-up world that belongs to nobody, and nothing reaches the node's state or
// the origin. The zero value is off.
type smokeWorld struct {
	on   atomic.Bool
	real host.Capabilities
}

// What there is in the made-up world.
const (
	smokeToken   = "svc_test_0000000000000000000000000000003z6w65"
	smokeAccount = "acc_smoke"
	smokeEmail   = "smoke@example.com"
	smokeInsight = "ins_smoke"
	smokeFiring  = "fir_smoke"
)

// beside are capabilities that answer as real does, but while the world is on.
func (w *smokeWorld) beside(real host.Capabilities) host.Capabilities {
	w.real = real
	return host.Capabilities{Keys: w, Buckets: w, Lockouts: w, Views: w, Subscriptions: w, Outbox: w}
}

// AppendKey implements host.Keys.
func (w *smokeWorld) AppendKey(ctx context.Context, dst, token []byte) ([]byte, error) {
	if !w.on.Load() {
		return w.real.Keys.AppendKey(ctx, dst, token)
	}
	if string(token) != smokeToken {
		return dst, host.ErrNotFound
	}
	key := abi.Key{
		ID: "key_smoke", AccountID: smokeAccount, Environment: abi.EnvTest, RateLimit: 100,
		Scopes:  abi.AllScopes,
		Expires: 1 << 60,
	}
	return key.Append(dst), nil
}

// Take implements host.Buckets.
func (w *smokeWorld) Take(ctx context.Context, keyID string, perMinute int) (abi.Bucket, error) {
	if !w.on.Load() {
		return w.real.Buckets.Take(ctx, keyID, perMinute)
	}
	return abi.Bucket{Allowed: true, Limit: perMinute, Remaining: perMinute - 1, ResetMS: 600}, nil
}

// Lockout implements host.Lockouts.
func (w *smokeWorld) Lockout(ctx context.Context, client string) (time.Duration, error) {
	if !w.on.Load() {
		return w.real.Lockouts.Lockout(ctx, client)
	}
	return 0, nil
}

// Failure implements host.Lockouts.
func (w *smokeWorld) Failure(ctx context.Context, client string) (time.Duration, error) {
	if !w.on.Load() {
		return w.real.Lockouts.Failure(ctx, client)
	}
	return 0, nil
}

// AppendProfile implements host.Views.
func (w *smokeWorld) AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	if !w.on.Load() {
		return w.real.Views.AppendProfile(ctx, dst, p)
	}
	profile := abi.Profile{AgentID: "agt_smoke", Email: smokeEmail, FullName: "Smoke", Joined: 1_750_000_000_000_000,
		AccountID: smokeAccount, AccountName: "Smoke", Mode: "live"}
	return profile.Append(dst), nil
}

// AppendInsights implements host.Views.
func (w *smokeWorld) AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error) {
	if !w.on.Load() {
		return w.real.Views.AppendInsights(ctx, dst, p, since, limit)
	}
	list := abi.Insights{History: true, Items: []abi.Insight{
		{ID: smokeInsight, Headline: "Smoke", Detail: "Nobody reads this.", Created: 1_750_000_000_000_000},
	}}
	return list.Append(dst), nil
}

// AppendFirings implements host.Views.
func (w *smokeWorld) AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error) {
	if !w.on.Load() {
		return w.real.Views.AppendFirings(ctx, dst, p, before, limit)
	}
	list := abi.Firings{Items: []abi.Firing{
		{ID: smokeFiring, Name: "smoke", Action: "none", Triggered: 1_750_000_000_000_000, Data: []byte(`{"smoke":true}`)},
	}}
	return list.Append(dst), nil
}

// Subscribe implements host.Subscriptions.
func (w *smokeWorld) Subscribe(ctx context.Context, p abi.Principal, s *abi.Subscription) (string, error) {
	if !w.on.Load() {
		return w.real.Subscriptions.Subscribe(ctx, p, s)
	}
	return "", nil
}

// Revoke implements host.Subscriptions.
func (w *smokeWorld) Revoke(ctx context.Context, p abi.Principal, id string) (bool, error) {
	if !w.on.Load() {
		return w.real.Subscriptions.Revoke(ctx, p, id)
	}
	return false, nil
}

// AppendLead implements host.Outbox.
func (w *smokeWorld) AppendLead(ctx context.Context, p abi.Principal, frame []byte) error {
	if !w.on.Load() {
		return w.real.Outbox.AppendLead(ctx, p, frame)
	}
	return nil
}

// LeadOnce implements host.Outbox.
func (w *smokeWorld) LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	if !w.on.Load() {
		return w.real.Outbox.LeadOnce(ctx, p, once)
	}
	return abi.Kept{Outcome: abi.New, ID: "lead_smoke"}, nil
}
