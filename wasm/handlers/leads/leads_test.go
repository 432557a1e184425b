package leads

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

const now = int64(1_750_000_000_000_000) // 2025-06-15T15:06:40Z

// take sends a body and returns the answer and what was kept.
func take(t testing.TB, env abi.Environment, text string) (resp abi.Response, kept []fake.Lead) {
	t.Helper()
	backend := fake.New(func() int64 { return now })
	p := backend.AddAccount(abi.Profile{})
	req := abi.Request{
		Now: now, Method: "POST", Body: []byte(text),
		Principal: abi.Principal{AccountID: p.AccountID, KeyID: "key_1", Environment: env},
	}
	for i := range req.Random {
		req.Random[i] = byte(i)
	}
	Handle(&req, &resp, backend.For(req.Principal))
	return resp, backend.Leads(p.AccountID)
}

func TestAnswer(t *testing.T) {
	const body = `{"name":" Ana  de Lima ","email":"ana@example.com","consent":{"status":"express_written","text_snapshot":" yes ","captured_at":"2025-05-01T00:00:00Z"}}`
	resp, kept := take(t, abi.EnvLive, body)
	var answer struct{ Lead struct{ ID string } }
	if err := json.Unmarshal(resp.Body, &answer); err != nil || !strings.HasPrefix(answer.Lead.ID, "lead_01") || len(answer.Lead.ID) != 31 {
		t.Fatalf("%s: %v", resp.Body, err)
	}
	want := `{"lead":{"id":"` + answer.Lead.ID + `","first_name":"Ana","last_name":"de Lima","email":"ana@example.com","phone":null,` +
		`"consent_status":"express_written","environment":"live"},"sandbox":false,"api_version":"v2"}`
	if resp.Status != 201 || string(resp.Body) != want {
		t.Errorf("%d %s, want\n%s", resp.Status, resp.Body, want)
	}
	if len(kept) != 1 || kept[0].Lead != (abi.Lead{
		ID: answer.Lead.ID, FirstName: "Ana", LastName: "de Lima", Email: "ana@example.com",
		ConsentStatus: "express_written", ConsentText: " yes ", Captured: 1_746_057_600_000_000, Created: now,
	}) {
		t.Errorf("kept %+v", kept)
	}

	resp, kept = take(t, abi.EnvTest, body)
	if want = strings.NewReplacer(`"live"`, `"test"`, `false`, `true`).Replace(want); string(resp.Body) != want || len(kept) != 0 {
		t.Errorf("test key: %s, %d kept", resp.Body, len(kept))
	}
}

// A key of neither environment must not reach the live pipeline.
func TestUnknownEnvironmentKeepsNothing(t *testing.T) {
	if resp, kept := take(t, "", `{"name":"A","phone":"5550100"}`); resp.Status != 201 || len(kept) != 0 {
		t.Errorf("%d, %d kept", resp.Status, len(kept))
	}
}

func TestNotKeptIsNotAnswered(t *testing.T) {
	backend := fake.New(func() int64 { return now })
	p := backend.AddAccount(abi.Profile{})
	for _, code := range []abi.Code{abi.CodeUnavailable, abi.CodeFailed, abi.CodeDenied, abi.CodeLimit} {
		backend.Fail(abi.OpLead, code)
		req := abi.Request{Body: []byte(`{"name":"A","phone":"5550100"}`), Principal: abi.Principal{AccountID: p.AccountID, Environment: abi.EnvLive}}
		var resp abi.Response
		Handle(&req, &resp, backend.For(req.Principal))
		if resp.Status != 500 || string(resp.Body) != `{"error":"internal_error"}` || len(resp.Headers) != 1 || resp.Headers[0].Name != "retry-after" {
			t.Errorf("%v: %d %s %v", code, resp.Status, resp.Body, resp.Headers)
		}
	}
}

// The rules are asked in the order that read's comment gives.
func TestOrderOfRules(t *testing.T) {
	long := strings.Repeat("x", 10_001)
	for _, tt := range []struct{ body, reason string }{
		{`{"first_name":7,"name":"` + long + `"}`, "invalid_field_type"},
		{`{"consent":{"status":7},"email":"` + long + `"}`, "invalid_field_type"},
		{`{"consent":{"text_snapshot":"` + long + `"}}`, "field_too_long"},
		{`{"email":"x"}`, "name_required"},
		{`{"name":"A","consent":{"status":"x"}}`, "contact_required"},
		{`{"name":"A","email":"x","phone":"x"}`, "invalid_email"},
		{`{"name":"A","phone":"x","consent":{"status":"x"}}`, "invalid_phone"},
		{`{"name":"A","phone":"5550100","consent":{"status":"x","captured_at":"x"}}`, "invalid_consent_status"},
		{`{"name":"A","phone":"5550100","consent":{"captured_at":"x"}}`, "invalid_captured_at"},
	} {
		resp, kept := take(t, abi.EnvLive, tt.body)
		if want := `{"error":"invalid_lead","reason":"` + tt.reason + `"}`; resp.Status != 400 || string(resp.Body) != want || len(kept) != 0 {
			t.Errorf("%.60s: %d %s, want %s", tt.body, resp.Status, resp.Body, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for name, want := range map[string][2]string{
		"": {}, "Ana": {"Ana", ""}, "Ana Lima": {"Ana", "Lima"}, "Ana  \t Lima": {"Ana", "Lima"}, "Ana de  Lima": {"Ana", "de  Lima"},
		"山田\u3000太郎": {"山田", "太郎"}, "Ana\u00a0Lima": {"Ana", "Lima"}, "Ana\u200bLima": {"Ana\u200bLima", ""},
	} {
		if first, rest := split(name); first != want[0] || rest != want[1] {
			t.Errorf("%q: %q, %q", name, first, rest)
		}
	}
}

func TestPhone(t *testing.T) {
	for s, want := range map[string]bool{
		"5550100": true, "+1 555 010-9999": true, "(0)20/7946.0958": true, "5550100x1": true, "5550100 EXT. 123456": true, "5550100 # 7": true,
		"": false, "+": false, "1 2 3 4 5 6": false, "5550100x": false, "5550100x1234567": false, "5550100xx1": false, "x5550100": false,
		"5550100+": false, "５５５０１００": false, "ȺȺȺȺȺȺȺx1": false, "5550100ext": false, "5550100e1": false, "5550100\n": false,
	} {
		if got := isPhone(s); got != want {
			t.Errorf("%q: %t", s, got)
		}
	}
}

func TestEmail(t *testing.T) {
	for s, want := range map[string]bool{
		"a@b.co": true, "A.b+c/d=e@x-y.z9": true, "é@é.fr": true, strings.Repeat("a", 64) + "@b.co": true,
		"": false, "@": false, "a@b": false, "a@b.": false, "a@.b": false, "a@b.1": false, "a@b.c-": false, "a@-b.c": false, "a@b..c": false,
		strings.Repeat("a", 65) + "@b.co": false, "a@" + strings.Repeat("b", 64) + ".co": false, "a@b@c.de": false, "a b@c.de": false,
		".a@b.co": false, "a.@b.co": false, "a..a@b.co": false, "a\x00@b.co": false, "a@b.co\n": false, "\"a\"@b.co": false,
		"a\u200b@b.co": false, "a\ufeff@b.co": false, "a\u0085@b.co": false, "a@b\u2028.co": false, "a@b!.co": false, "a@[::1]": false,
	} {
		if got := isEmail(s); got != want {
			t.Errorf("%q: %t", s, got)
		}
	}
}

// FuzzLead: whatever comes, the answer is JSON, either a refusal with nothing
// kept or a lead within its limits, kept as it was answered.
func FuzzLead(f *testing.F) {
	for _, seed := range []string{
		`{"name":"Ana Lima","email":"ana@example.com"}`,
		`{"first_name":"Ana","last_name":"Lima","phone":"+1 555 010 9999 x12","consent":{"status":"none","text_snapshot":"x","captured_at":"2025-05-01T00:00:00+02:00"}}`,
		`{"name":"\ud83c\udfe1 é","email":"é@é.fr","consent":null}`, `{"name":7}`, `{"name":"A","email":"x"}`, `[]`, ``, `{"consent":{"status":"maybe"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		resp, kept := take(t, abi.EnvLive, string(text))
		var answer struct {
			Error, Reason string
			Lead          *struct {
				ID            string
				FirstName     string  `json:"first_name"`
				LastName      *string `json:"last_name"`
				Email, Phone  *string
				ConsentStatus string `json:"consent_status"`
				Environment   string
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
		value := func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		}
		k, l := kept[0], answer.Lead
		if k.ID != l.ID || k.FirstName != l.FirstName || k.LastName != value(l.LastName) || k.Email != value(l.Email) ||
			k.Phone != value(l.Phone) || k.ConsentStatus != l.ConsentStatus {
			t.Fatalf("kept %+v, answered %s", k, resp.Body)
		}
		if k.FirstName == "" || k.Email == "" && k.Phone == "" || !isConsent(k.ConsentStatus) {
			t.Fatalf("kept %+v", k)
		}
		for s, most := range map[string]int{k.FirstName: 200, k.LastName: 200, k.Email: 254, k.Phone: 32, k.ConsentText: 10_000} {
			if utf8.RuneCountInString(s) > most || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				t.Fatalf("kept %q", s)
			}
		}
	})
}
