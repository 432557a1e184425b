package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/wasm/abi"
)

// keeper keeps what it is given beyond the call, as a store does.
type keeper struct {
	sample
	subscription  abi.Subscription
	once          abi.Once
	subscribeOnce abi.SubscribeOnce
	texts         []string
}

func (k *keeper) Lockout(_ context.Context, client string) (time.Duration, error) {
	k.texts = append(k.texts, client)
	return 0, nil
}

func (k *keeper) Failure(ctx context.Context, client string) (time.Duration, error) {
	return k.Lockout(ctx, client)
}

func (k *keeper) Take(_ context.Context, keyID string, _ int) (abi.Bucket, error) {
	k.texts = append(k.texts, keyID)
	return abi.Bucket{}, nil
}

func (k *keeper) Subscribe(_ context.Context, _ abi.Principal, s *abi.Subscription) (string, error) {
	k.subscription = *s
	return "", nil
}

func (k *keeper) SubscribeOnce(_ context.Context, _ abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error) {
	k.subscribeOnce = *once
	return abi.Subscribed{}, nil
}

func (k *keeper) Revoke(_ context.Context, _ abi.Principal, id string) (bool, error) {
	k.texts = append(k.texts, id)
	return false, nil
}

func (k *keeper) AppendLead(context.Context, abi.Principal, []byte) error { return nil }

func (k *keeper) LeadOnce(_ context.Context, _ abi.Principal, once *abi.Once) (abi.Kept, error) {
	k.once = *once
	return abi.Kept{}, nil
}

// TestCapabilitiesMayKeepTexts writes over the guest's memory after each operation,
// as the next request does: what a capability was given must not change with it.
func TestCapabilitiesMayKeepTexts(t *testing.T) {
	r, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	k := &keeper{}
	m := &Module{runtime: r, limits: Limits{}.withDefaults(),
		manifest: Manifest{Name: "keep", Capabilities: []abi.Capability{abi.Buckets, abi.Lockouts, abi.Subscriptions, abi.Outbox}}}
	m.SetCapabilities(Capabilities{Buckets: k, Lockouts: k, Subscriptions: k, Outbox: k})
	mem, err := memory.New(64<<10, r.config.Reset)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	guest := mem.Resize(64 << 10)
	c := newCall(m, mem)
	c.begin(t.Context(), abi.Principal{Scopes: abi.AllScopes}, 1)
	defer c.end()
	mem.Watch()
	defer mem.Unwatch()
	perform := func(op abi.Op, input string) {
		t.Helper()
		if code := c.op(op, guest[:copy(guest, input)], guest[32<<10:]); code < 0 {
			t.Fatalf("operation %d: %v", op, abi.Code(code))
		}
		for i := range guest {
			guest[i] = '!'
		}
	}
	description := "A description"
	s := abi.Subscription{ID: "whs_1", Target: "https://example.com/hook", Events: []string{"sentinel.fired"}, Description: &description, Secret: "5ec7e7"}
	once := abi.Once{Key: "order 7", Digest: "digest", Lead: abi.Lead{ID: "lead_1", FirstName: "Ana", Email: "ana@example.com", ConsentStatus: "none"}}
	perform(abi.OpSubscribe, string(s.Append(nil)))
	perform(abi.OpLeadOnce, string(once.Append(nil)))
	subscribeOnce := abi.SubscribeOnce{Key: "order 8", Digest: "digest", Subscription: s}
	perform(abi.OpSubscribeOnce, string(subscribeOnce.Append(nil)))
	perform(abi.OpLockout, "192.0.2.1")
	perform(abi.OpFailure, "192.0.2.2")
	perform(abi.OpTake, "\x64\x00\x00\x00key_1")
	perform(abi.OpRevoke, "whs_2")
	if got, want := string(k.subscription.Append(nil)), string(s.Append(nil)); got != want {
		t.Errorf("subscription %q, want %q", got, want)
	}
	if got, want := string(k.subscribeOnce.Append(nil)), string(subscribeOnce.Append(nil)); got != want {
		t.Errorf("subscription to make once %q, want %q", got, want)
	}
	if got, want := string(k.once.Append(nil)), string(once.Append(nil)); got != want {
		t.Errorf("lead %q, want %q", got, want)
	}
	if got, want := strings.Join(k.texts, " "), "192.0.2.1 192.0.2.2 key_1 whs_2"; got != want {
		t.Errorf("texts %q, want %q", got, want)
	}
}
