package rollout

import (
	"context"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// smokeCapabilities returns what the modules of a release are granted during its
// smoke test: one key and one account that belong to nobody. Nothing reaches the
// node's state or the origin.
func smokeCapabilities() host.Capabilities {
	var f smokeFake
	return host.Capabilities{Keys: f, Buckets: f, Lockouts: f, Views: f, Subscriptions: f, Outbox: f}
}

const (
	smokeToken   = "svc_test_0000000000000000000000000000003z6w65"
	smokeAccount = "acc_smoke"
	smokeEmail   = "smoke@example.com"
	smokeInsight = "ins_smoke"
	smokeFiring  = "fir_smoke"
	smokeTime    = 1_750_000_000_000_000
)

// smokeFake implements every capability.
type smokeFake struct{}

func (smokeFake) AppendKey(_ context.Context, dst, token []byte) ([]byte, error) {
	if string(token) != smokeToken {
		return dst, host.ErrNotFound
	}
	key := abi.Key{
		ID: "key_smoke", AccountID: smokeAccount, Environment: abi.EnvTest, RateLimit: 100,
		Scopes: abi.AllScopes, Expires: 1 << 60,
	}
	return key.Append(dst), nil
}

func (smokeFake) Take(_ context.Context, _ string, perMinute int) (abi.Bucket, error) {
	return abi.Bucket{Allowed: true, Limit: perMinute, Remaining: perMinute - 1, ResetMS: 600}, nil
}

func (smokeFake) Lockout(context.Context, string) (time.Duration, error) { return 0, nil }
func (smokeFake) Failure(context.Context, string) (time.Duration, error) { return 0, nil }

func (smokeFake) AppendProfile(_ context.Context, dst []byte, _ abi.Principal) ([]byte, error) {
	profile := abi.Profile{AgentID: "agt_smoke", Email: smokeEmail, FullName: "Smoke", Joined: smokeTime,
		AccountID: smokeAccount, AccountName: "Smoke", Mode: "live"}
	return profile.Append(dst), nil
}

func (smokeFake) AppendInsights(_ context.Context, dst []byte, _ abi.Principal, _ int64, _ int) ([]byte, error) {
	list := abi.Insights{History: true, Items: []abi.Insight{
		{ID: smokeInsight, Headline: "Smoke", Detail: "Nobody reads this.", Created: smokeTime},
	}}
	return list.Append(dst), nil
}

func (smokeFake) AppendFirings(_ context.Context, dst []byte, _ abi.Principal, _ int64, _ int) ([]byte, error) {
	list := abi.Firings{Items: []abi.Firing{
		{ID: smokeFiring, Name: "smoke", Action: "none", Triggered: smokeTime, Data: []byte(`{"smoke":true}`)},
	}}
	return list.Append(dst), nil
}

func (smokeFake) Subscribe(context.Context, abi.Principal, *abi.Subscription) (string, error) {
	return "", nil
}
func (smokeFake) SubscribeOnce(_ context.Context, _ abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error) {
	return abi.Subscribed{Outcome: abi.New, ID: once.Subscription.ID, Secret: once.Subscription.Secret, Created: once.Subscription.Created}, nil
}
func (smokeFake) Revoke(context.Context, abi.Principal, string) (bool, error) { return false, nil }

func (smokeFake) AppendLead(context.Context, abi.Principal, []byte) error { return nil }
func (smokeFake) LeadOnce(context.Context, abi.Principal, *abi.Once) (abi.Kept, error) {
	return abi.Kept{Outcome: abi.New, ID: "lead_smoke"}, nil
}
