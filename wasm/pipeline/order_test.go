package pipeline

import (
	"slices"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/route"
)

// failing is a fake whose lockouts can fail.
type failing struct {
	*fake
	lockoutErr, failureErr error
}

func (f *failing) Lockout(client string) (int64, error) {
	if f.lockoutErr != nil {
		return 0, f.lockoutErr
	}
	return f.fake.Lockout(client)
}

func (f *failing) Failure(client string) (int64, error) {
	if f.failureErr != nil {
		return 0, f.failureErr
	}
	return f.fake.Failure(client)
}

func answerOf(token string, changes ...func(*abi.Request, *failing)) string {
	host := &failing{fake: good()}
	req := &abi.Request{Now: now, Method: "GET", Path: "/api/v2/public/agents/me", Client: "192.0.2.1",
		Headers: []abi.Header{{Name: "authorization", Value: token}}}
	for _, change := range changes {
		change(req, host)
	}
	var resp abi.Response
	contract.Handle(req, &resp, host)
	return string(resp.Append(nil))
}

// TestOrder checks that of any two faults of a request, the one that is checked
// first decides the answer and its headers.
func TestOrder(t *testing.T) {
	key := "Bearer " + token(t)
	steps := []struct {
		name string
		does func(*abi.Request, *failing)
	}{
		{"lockouts broken", func(_ *abi.Request, f *failing) { f.lockoutErr = abi.CodeFailed }},
		{"locked out", func(_ *abi.Request, f *failing) { f.locked = 60_000 }},
		{"missing", func(r *abi.Request, _ *failing) { r.Headers = nil }},
		{"malformed", func(r *abi.Request, _ *failing) {
			if len(r.Headers) > 0 {
				r.Headers[0].Value = "Bearer nonsense"
			}
		}},
		{"unavailable", func(_ *abi.Request, f *failing) { f.keyErr = abi.CodeUnavailable }},
		{"unknown", func(_ *abi.Request, f *failing) {
			if f.keyErr == nil {
				f.keyErr = abi.CodeNotFound
			}
		}},
		{"revoked", func(_ *abi.Request, f *failing) { f.key.Revoked = 1 }},
		{"past its grace", func(_ *abi.Request, f *failing) { f.key.GraceUntil = now - 1 }},
		{"expired", func(_ *abi.Request, f *failing) { f.key.Expires = now - 1 }},
		{"not allowed", func(_ *abi.Request, f *failing) { f.key.Allowlist = []string{"10.0.0.0/8"} }},
		{"buckets broken", func(_ *abi.Request, f *failing) { f.takeErr = abi.CodeFailed }},
		{"over the limit", func(_ *abi.Request, f *failing) { f.bucket.Allowed, f.bucket.RetryMS = false, 600 }},
		{"no such path", func(r *abi.Request, _ *failing) { r.Path = "/nowhere" }},
		{"wrong method", func(r *abi.Request, _ *failing) { r.Method = "PATCH" }},
		{"wrong scope", func(_ *abi.Request, f *failing) { f.key.Scopes = 0 }},
	}
	seen := map[string]string{answerOf(key): "a good request"}
	for i, first := range steps {
		want := answerOf(key, first.does)
		// Only answers of a host that fails are the same for two reasons.
		if other, ok := seen[want]; ok && !slices.Contains([]string{"unavailable", "buckets broken"}, first.name) {
			t.Errorf("%s is answered like %s", first.name, other)
		}
		seen[want] = first.name
		for _, second := range steps[i+1:] {
			if got := answerOf(key, first.does, second.does); got != want {
				t.Errorf("%s and %s: %q, want the first's answer %q", first.name, second.name, got, want)
			}
		}
	}
}

func TestAnswerHeaders(t *testing.T) {
	rates := []abi.Header{{Name: "x-ratelimit-limit", Value: "100"}, {Name: "x-ratelimit-remaining", Value: "99"},
		{Name: "x-ratelimit-reset-ms", Value: "600"}, {Name: "x-svc-environment", Value: "live"}}
	with := func(h ...abi.Header) []abi.Header { return append(slices.Clone(rates), h...) }
	bearer := abi.Header{Name: "www-authenticate", Value: "Bearer"}
	soon := abi.Header{Name: "retry-after", Value: "1"}
	for _, tt := range []struct {
		name   string
		change func(*abi.Request, *failing)
		want   []abi.Header
	}{
		{"passed on", nil, rates},
		{"401", func(r *abi.Request, _ *failing) { r.Headers = nil }, []abi.Header{bearer}},
		{"401 of a key once good", func(_ *abi.Request, f *failing) { f.key.Expires = 1 }, []abi.Header{bearer}},
		{"locked out", func(_ *abi.Request, f *failing) { f.locked = 899_001 }, []abi.Header{{Name: "retry-after", Value: "900"}}},
		{"not allowed", func(_ *abi.Request, f *failing) { f.key.Allowlist = []string{"::/0"} }, nil},
		{"lockouts broken", func(_ *abi.Request, f *failing) { f.lockoutErr = abi.CodeUnavailable }, []abi.Header{soon}},
		{"failure not counted", func(_ *abi.Request, f *failing) { f.key.Revoked, f.failureErr = now, abi.CodeFailed }, []abi.Header{soon}},
		{"limited", func(_ *abi.Request, f *failing) { f.bucket.Allowed, f.bucket.RetryMS = false, 1200 }, with(abi.Header{Name: "retry-after", Value: "2"})},
		{"404", func(r *abi.Request, _ *failing) { r.Path = "/" }, rates},
		{"405 of a read", func(r *abi.Request, _ *failing) { r.Method = "HEAD" }, with(abi.Header{Name: "allow", Value: "GET"})},
		{"405 of a deletion", func(r *abi.Request, _ *failing) { r.Path = "/api/v2/public/webhooks/whs_1" }, with(abi.Header{Name: "allow", Value: "DELETE"})},
		{"403", func(_ *abi.Request, f *failing) { f.key.Scopes = 0 }, rates},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changes := []func(*abi.Request, *failing){}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			var resp abi.Response
			if err := resp.Parse([]byte(answerOf("Bearer "+token(t), changes...))); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(resp.Headers, tt.want) {
				t.Errorf("headers %v, want %v", resp.Headers, tt.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		scope        abi.Scopes
		handler      string
	}{
		{"GET", "agents/me", abi.ReadAgent, "agents"},
		{"GET", "coaching/insights", abi.ReadCoaching, "coaching"},
		{"GET", "sentinels/firings", abi.ReadSentinels, "sentinels"},
		{"POST", "webhooks/subscribe", abi.WriteWebhooks, "webhooks"},
		{"DELETE", "webhooks/whs_1", abi.WriteWebhooks, "webhooks"},
		{"DELETE", "webhooks/", abi.WriteWebhooks, "webhooks"},
		{"POST", "leads", abi.WriteLeads, "leads"},
	} {
		for scope := abi.ReadAgent; scope <= abi.WriteLeads; scope <<= 1 {
			var resp abi.Response
			frame := answerOf("Bearer "+token(t), func(r *abi.Request, f *failing) {
				r.Method, r.Path, f.key.Scopes = tt.method, route.Prefix+tt.path, scope
			})
			if err := resp.Parse([]byte(frame)); err != nil {
				t.Fatal(err)
			}
			if scope == tt.scope && resp.Handler != tt.handler || scope != tt.scope && resp.Status != 403 {
				t.Errorf("%s %s with scopes %b: %d, handler %q", tt.method, tt.path, scope, resp.Status, resp.Handler)
			}
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		networks []string
		client   string
		want     bool
	}{
		{nil, "192.0.2.1", true},
		{nil, "", true},
		{[]string{"192.0.2.1/32"}, "192.0.2.1", true},
		{[]string{"192.0.2.1/32"}, "192.0.2.2", false},
		{[]string{"192.0.2.0/24"}, "::ffff:192.0.2.9", true},
		{[]string{"2001:db8::/32"}, "2001:db8:1::1", true},
		{[]string{"2001:db8::/32"}, "2001:db8:1::1%eth0", true},
		{[]string{"::/0"}, "192.0.2.1", false},
		{[]string{"0.0.0.0/0"}, "2001:db8::1", false},
		{[]string{"0.0.0.0/0", "::/0"}, "", false},
		{[]string{"0.0.0.0/0"}, "localhost", false},
		{[]string{"192.0.2.1"}, "192.0.2.1", false},
		{[]string{""}, "192.0.2.1", false},
	} {
		if got := allowed(tt.networks, tt.client); got != tt.want {
			t.Errorf("allowed(%q, %q) = %t, want %t", tt.networks, tt.client, got, tt.want)
		}
	}
}
