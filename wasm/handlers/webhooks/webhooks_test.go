package webhooks

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/targeturl"
)

const now = int64(1_750_000_000_000_000) // 2025-06-15T15:06:40Z

func request(text string) *abi.Request {
	return &abi.Request{
		Now: now, Method: "POST", Body: []byte(text),
		Principal: abi.Principal{AccountID: "acc_1", Environment: abi.EnvTest},
	}
}

func newBackend() *fake.Backend {
	backend := fake.New(func() int64 { return now })
	backend.AddAccount(abi.Profile{AccountID: "acc_1"})
	return backend
}

func TestSubscribe(t *testing.T) {
	backend := newBackend()
	req := request(`{"target_url":"https://example.com/hook","events":["deal.stage_changed"],"description":"x\"y"}`)
	var resp abi.Response
	Handle(req, &resp, backend.For(req.Principal))
	kept := backend.Subscriptions("acc_1")
	if resp.Status != 201 || len(kept) != 1 {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	want := `{"subscription":{"id":"` + kept[0].ID + `","target_url":"https://example.com/hook","events":["deal.stage_changed"],` +
		`"description":"x\"y","environment":"test","created_at":"2025-06-15T15:06:40.000000Z"},"secret":"` + kept[0].Secret +
		`","signing_scheme":"` + signingScheme + `"}`
	if string(resp.Body) != want {
		t.Errorf("%s, want\n%s", resp.Body, want)
	}
	if kept[0].Created != now || kept[0].Environment != abi.EnvTest || *kept[0].Description != `x"y` {
		t.Errorf("kept %+v", kept[0])
	}
}

// The id is public, the secret is not: neither may show what the other, or the
// request's random bytes, are.
func TestIdentify(t *testing.T) {
	req := request("")
	for i := range req.Random {
		req.Random[i] = byte(0xa0 + i)
	}
	id, secret := identify(req)
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) != 32 || secret != strings.ToLower(secret) || !strings.HasPrefix(id, "whs_01") || len(id) != 30 {
		t.Fatalf("%s %s", id, secret)
	}
	for i := range key[:29] {
		if strings.Contains(string(req.Random[:]), string(key[i:i+4])) {
			t.Error("the secret shows random bytes of the request")
		}
	}
	if id2, secret2 := identify(req); id2 != id || secret2 != secret {
		t.Error("the same randomness makes another secret")
	}
	seen := map[string]bool{}
	for i := range 256 { // one bit more or less changes both
		req.Random[i/8] ^= 1 << (i % 8)
		id, secret := identify(req)
		if seen[id] || seen[secret] {
			t.Fatalf("bit %d changes nothing", i)
		}
		seen[id], seen[secret] = true, true
		req.Random[i/8] ^= 1 << (i % 8)
	}
}

func TestHostErrors(t *testing.T) {
	const good = `{"target_url":"https://example.com","events":["sentinel.fired"]}`
	for _, tt := range []struct {
		op     abi.Op
		code   abi.Code
		status int
		body   string
	}{
		{abi.OpSubscribe, abi.CodeLimit, 400, `{"error":"subscription_limit_reached"}`},
		{abi.OpSubscribe, abi.CodeUnavailable, 500, `{"error":"internal_error"}`},
		{abi.OpSubscribe, abi.CodeDenied, 500, `{"error":"internal_error"}`},
		{abi.OpRevoke, abi.CodeNotFound, 404, `{"error":"subscription_not_found"}`},
		{abi.OpRevoke, abi.CodeUnavailable, 500, `{"error":"internal_error"}`},
	} {
		backend := newBackend()
		backend.Fail(tt.op, tt.code)
		req := request(good)
		if tt.op == abi.OpRevoke {
			req.Method, req.Params = "DELETE", []abi.Param{{Name: "id", Value: "whs_1"}}
		}
		var resp abi.Response
		Handle(req, &resp, backend.For(req.Principal))
		if resp.Status != tt.status || string(resp.Body) != tt.body || (resp.Status == 500) != (len(resp.Headers) == 1) {
			t.Errorf("%v of %d: %d %s %v", tt.code, tt.op, resp.Status, resp.Body, resp.Headers)
		}
	}
}

// What the host finds wrong with a target is answered as what the syntax is.
func TestRefusedByHost(t *testing.T) {
	backend := newBackend()
	backend.Guard = func(host string) string {
		if host != "example.com" {
			t.Errorf("asked about %q", host)
		}
		return targeturl.DNSFailure
	}
	req := request(`{"target_url":"https://Example.com:8443/x","events":["sentinel.fired"]}`)
	var resp abi.Response
	Handle(req, &resp, backend.For(req.Principal))
	if resp.Status != 400 || string(resp.Body) != `{"error":"invalid_target_url","reason":"dns_failure"}` {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}

// What cannot be an identifier is not asked for, and what can is.
func TestRevokeAsksOnlyForIDs(t *testing.T) {
	backend := newBackend()
	backend.Fail(abi.OpRevoke, abi.CodeUnavailable)
	for id, status := range map[string]int{
		"WHS_1": 404, "a-b": 404, "é": 404, "\x00": 404, "\xff": 404, strings.Repeat("a", 65): 404, "a/b": 404, "'": 404,
		"whs_0az9": 500, strings.Repeat("a", 64): 500,
	} {
		req := &abi.Request{Method: "DELETE", Params: []abi.Param{{Name: "id", Value: id}}}
		var resp abi.Response
		Handle(req, &resp, backend.For(abi.Principal{AccountID: "acc_1"}))
		if resp.Status != status {
			t.Errorf("%q: %d, want %d", id, resp.Status, status)
		}
	}
}

// FuzzSubscribe: whatever comes, the answer is JSON, either a refusal with
// nothing kept or a subscription, kept as it was answered.
func FuzzSubscribe(f *testing.F) {
	for _, seed := range []string{
		`{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`,
		`{"target_url":"https://1.1.1.1:8443","events":["sentinel.fired","x",7,"sentinel.fired","goal.pace_changed"],"description":"d\u00e9"}`,
		`{"target_url":"http://example.com","events":["sentinel.fired"]}`, `{"target_url":"https://10.0.0.1","events":["sentinel.fired"]}`,
		`{"target_url":"https://example.com","events":"sentinel.fired"}`, `{"target_url":"https://example.com","events":["sentinel.fired"],"description":7}`,
		`[]`, ``, `{"target_url":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		backend := newBackend()
		req := request(string(text))
		var resp abi.Response
		Handle(req, &resp, backend.For(req.Principal))
		kept := backend.Subscriptions("acc_1")
		var answer struct {
			Error, Reason, Secret string
			Subscription          struct {
				ID          string
				Target      string `json:"target_url"`
				Events      []string
				Description *string
			}
		}
		if err := json.Unmarshal(resp.Body, &answer); err != nil {
			t.Fatalf("%s: %v", resp.Body, err)
		}
		if resp.Status == 400 && answer.Error != "" && answer.Reason != "" && len(kept) == 0 {
			return
		}
		if resp.Status != 201 || len(kept) != 1 {
			t.Fatalf("%d %s, %d kept", resp.Status, resp.Body, len(kept))
		}
		k, s := kept[0], answer.Subscription
		if k.ID != s.ID || k.Secret != answer.Secret || k.Target != s.Target || !slices.Equal(k.Events, s.Events) ||
			(k.Description == nil) != (s.Description == nil) || k.Description != nil && *k.Description != *s.Description {
			t.Fatalf("kept %+v, answered %s", k, resp.Body)
		}
		if _, _, reason := targeturl.Parse(k.Target); reason != "" || len(k.Events) == 0 || len(k.Events) > 5 {
			t.Fatalf("kept %+v", k)
		}
	})
}
