package pipeline

import (
	"errors"
	"strings"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/route"
)

// contract is a pipeline with the contract's routes.
var contract = Pipeline{Routes: route.ContractTable()}

// fake is a host with fixed answers.
type fake struct {
	locked   int64
	key      *abi.Key // nil: unknown
	keyErr   error
	bucket   abi.Bucket
	takeErr  error
	failures int
	taken    int
}

func (f *fake) Lockout(string) (int64, error) { return f.locked, nil }
func (f *fake) Failure(string) (int64, error) { f.failures++; return 0, nil }

func (f *fake) Key(string) (abi.Key, error) {
	if f.keyErr != nil {
		return abi.Key{}, f.keyErr
	}
	if f.key == nil {
		return abi.Key{}, abi.CodeNotFound
	}
	return *f.key, nil
}

func (f *fake) Take(string, int) (abi.Bucket, error) {
	f.taken++
	return f.bucket, f.takeErr
}

const now = 1_700_000_000_000_000

func token(t testing.TB) string {
	var random [apikey.RandomSize]byte
	key := apikey.Mint(abi.EnvLive, &random)
	if key == "" {
		t.Fatal("no key minted")
	}
	return key
}

func good() *fake {
	return &fake{
		key: &abi.Key{ID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive, Scopes: ^abi.Scopes(0),
			RateLimit: 100, Expires: now + 1},
		bucket: abi.Bucket{Allowed: true, Limit: 100, Remaining: 99, ResetMS: 600},
	}
}

func TestHandle(t *testing.T) {
	bearerToken := "Bearer " + token(t)
	for _, tt := range []struct {
		name     string
		change   func(*abi.Request, *fake)
		status   int // 0: passed on to a handler
		body     string
		failures int
		taken    int
	}{
		{"passes", nil, 0, "", 0, 1},
		{"locked out", func(_ *abi.Request, f *fake) { f.locked = 1500 }, 403,
			`{"error":"too_many_failed_attempts","reason":"ip_locked_out","retry_after_seconds":2}`, 0, 0},
		{"locked out for a moment", func(_ *abi.Request, f *fake) { f.locked = 1 }, 403,
			`{"error":"too_many_failed_attempts","reason":"ip_locked_out","retry_after_seconds":1}`, 0, 0},
		{"no header", func(r *abi.Request, _ *fake) { r.Headers = nil }, 401, "missing_bearer_token", 0, 0},
		{"two headers", func(r *abi.Request, _ *fake) { r.Headers = append(r.Headers, r.Headers[0]) }, 401, "malformed_api_key", 1, 0},
		{"basic", func(r *abi.Request, _ *fake) { r.Headers[0].Value = "Basic eA==" }, 401, "missing_bearer_token", 0, 0},
		{"bad checksum", func(r *abi.Request, _ *fake) {
			v := []byte(bearerToken)
			v[len(v)-1] ^= 1
			r.Headers[0].Value = string(v)
		}, 401, "malformed_api_key", 1, 0},
		{"unknown", func(_ *abi.Request, f *fake) { f.key = nil }, 401, "unknown_api_key", 1, 0},
		{"revoked", func(_ *abi.Request, f *fake) { f.key.Revoked = now }, 401, "api_key_revoked", 1, 0},
		{"revoked by a clock ahead", func(_ *abi.Request, f *fake) { f.key.Revoked = now + 5_000_000 }, 401, "api_key_revoked", 1, 0},
		{"revoked and expired", func(_ *abi.Request, f *fake) { f.key.Revoked, f.key.Expires = now, now }, 401, "api_key_revoked", 1, 0},
		{"expired", func(_ *abi.Request, f *fake) { f.key.Expires = now }, 401, "api_key_expired", 0, 0},
		{"grace over", func(_ *abi.Request, f *fake) { f.key.GraceUntil = now }, 401, "api_key_grace_expired", 0, 0},
		{"grace over, expired since", func(_ *abi.Request, f *fake) { f.key.GraceUntil, f.key.Expires = now-2, now-1 }, 401, "api_key_grace_expired", 0, 0},
		{"expired in its grace", func(_ *abi.Request, f *fake) { f.key.GraceUntil, f.key.Expires = now+1, now }, 401, "api_key_grace_expired", 0, 0},
		{"in grace", func(_ *abi.Request, f *fake) { f.key.GraceUntil = now + 1 }, 0, "", 0, 1},
		{"origin away", func(_ *abi.Request, f *fake) { f.keyErr = abi.CodeUnavailable }, 500, `{"error":"internal_error"}`, 0, 0},
		{"address allowed", func(_ *abi.Request, f *fake) { f.key.Allowlist = []string{"10.0.0.0/8", "192.0.2.0/24"} }, 0, "", 0, 1},
		{"address refused", func(_ *abi.Request, f *fake) { f.key.Allowlist = []string{"10.0.0.0/8", "nonsense"} }, 403, `"ip_not_allowed"`, 0, 0},
		{"over the limit", func(_ *abi.Request, f *fake) { f.bucket = abi.Bucket{Limit: 100, RetryMS: 1} }, 429,
			`{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":1}`, 0, 1},
		{"buckets broken", func(_ *abi.Request, f *fake) { f.takeErr = errors.New("disk") }, 500, "internal_error", 0, 1},
		{"no such path", func(r *abi.Request, _ *fake) { r.Path = "/api/v2/public/agents" }, 404, `{"error":"not_found"}`, 0, 1},
		{"wrong method", func(r *abi.Request, _ *fake) { r.Method = "PUT" }, 405, `{"error":"method_not_allowed"}`, 0, 1},
		{"wrong scope", func(_ *abi.Request, f *fake) { f.key.Scopes = abi.ReadCoaching }, 403,
			`{"error":"forbidden","reason":"insufficient_scope"}`, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := good()
			req := &abi.Request{Now: now, Method: "GET", Path: "/api/v2/public/agents/me", Client: "192.0.2.1",
				Headers: []abi.Header{{Name: "authorization", Value: bearerToken}}}
			if tt.change != nil {
				tt.change(req, host)
			}
			var resp abi.Response
			contract.Handle(req, &resp, host)
			if resp.Status != tt.status || !strings.Contains(string(resp.Body), tt.body) {
				t.Errorf("%d %s, want %d %s", resp.Status, resp.Body, tt.status, tt.body)
			}
			if host.failures != tt.failures || host.taken != tt.taken {
				t.Errorf("%d failures counted and %d tokens taken, want %d and %d", host.failures, host.taken, tt.failures, tt.taken)
			}
			if tt.status == 0 && (resp.Handler != "agents" || resp.Principal.AccountID != "acc_1" || resp.Principal.KeyID != "key_1") {
				t.Errorf("passed on as %+v", resp)
			}
			limited := false
			for _, h := range resp.Headers {
				limited = limited || h.Name == "x-ratelimit-remaining"
			}
			if want := tt.taken == 1 && host.takeErr == nil; limited != want {
				t.Errorf("rate-limit headers: %t, want %t", limited, want)
			}
		})
	}
}

func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer ", "bearer x", "BEARER  svc_live_", "Basic x", "Bearerx", "Bearer\tx", "Bearer " + token(f), "Bearer \xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, reason := bearer(&abi.Request{Headers: []abi.Header{{Name: "authorization", Value: value}}})
		if (got == "") == (reason == "") {
			t.Errorf("bearer(%q) = %q, %q: one of them must be there", value, got, reason)
		}
		if got != "" && !strings.Contains(value, got) {
			t.Errorf("bearer(%q) = %q, which is not in it", value, got)
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	host := good()
	req := &abi.Request{Now: now, Method: "GET", Path: "/api/v2/public/agents/me", Client: "192.0.2.1",
		Headers: []abi.Header{{Name: "authorization", Value: "Bearer " + token(b)}}}
	var resp abi.Response
	for b.Loop() {
		resp.Reset()
		contract.Handle(req, &resp, host)
	}
}
