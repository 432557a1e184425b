package leads

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"partneredge/host"
	"partneredge/store"
	"partneredge/store/valid"
	"partneredge/wasm/abi"
	"partneredge/wasm/handlers/leads"
)

// guestOutbox gives a handler the node's outbox without a sandbox between them.
type guestOutbox struct {
	t *testing.T
	Outbox
	p abi.Principal
}

func (g guestOutbox) Lead(l *abi.Lead) error { return g.AppendLead(g.t.Context(), g.p, l.Append(nil)) }
func (g guestOutbox) LeadOnce(o *abi.Once) (abi.Kept, error) {
	return g.Outbox.LeadOnce(g.t.Context(), g.p, o)
}

// acknowledge sends a body through the handler. If the lead is acknowledged, it
// must lie in the outbox as one that the origin keeps; otherwise it must have
// been refused by name, never with a 500.
func acknowledge(t *testing.T, o Outbox, body []byte, random [16]byte) (accepted bool) {
	t.Helper()
	p := abi.Principal{AccountID: "acc_1", KeyID: "key_1", Environment: abi.EnvLive}
	req := abi.Request{Now: time.Now().UnixMicro(), Method: "POST", Body: body, Principal: p}
	copy(req.Random[:], random[:])
	var resp abi.Response
	leads.Handle(&req, &resp, guestOutbox{t, o, p})
	items, err := o.cfg.Store.Outbox.Pending(2, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case resp.Status == 400 && len(items) == 0:
		return false
	case resp.Status != 201 || len(items) != 1:
		t.Fatalf("%q: %d %s, %d wait", body, resp.Status, resp.Body, len(items))
	}
	var lead store.Lead
	if err := json.Unmarshal(items[0].Body, &lead); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if err := valid.Lead(lead); err != nil {
		t.Fatalf("%q was acknowledged, and the origin says: %v", body, err)
	}
	if lead.CapturedAt.IsZero() && fastjson.GetString(body, "consent", "captured_at") != "" {
		t.Fatalf("%q was acknowledged without its time of consent", body)
	}
	if err := o.cfg.Store.Outbox.Remove(t.Context(), items[0].ID); err != nil {
		t.Fatal(err)
	}
	return true
}

// oddTexts are texts about which the handler, JSON and databases may differ.
var oddTexts = []string{
	``, ` `, `Ana Lima`, `a\u0000b`, "a\x00b", "a\xffb", "\xed\xa0\x80", `\ud800`, `\u0001\u001f\u007f\u0085`, `\u2028<&>\"\\`, `\ufffd\uffff\ufeff`,
	`\udbff\udfff`, `ana@example.com`, `é@é.fr`, `+1 555 010 9999`, `none`, `express_written`, `inbound_initiated`, `NONE`,
	strings.Repeat("é", 200), strings.Repeat("\U0010ffff", 200), strings.Repeat("é", 201),
	strings.Repeat("\U0010ffff", 10_000), strings.Repeat("<", 10_000), strings.Repeat(`\u0001`, 10_000), strings.Repeat("x", 10_001),
}

// oddTimes lie around every bound of a time.
var oddTimes = []string{
	``, `yesterday`, `0000-01-01`, `0001-01-01T00:00:00Z`, `1582-10-10`, `1899-12-30`, `1900-01-01`, `1900-01-01T00:00:00+23:59`, `1969-12-31T23:59:59.999999Z`,
	`1970-01-01T00:00:00Z`, `1970-01-01T00:00:00.000001Z`, `1970-01-01`, `1970-01-01T23:59:59.999999Z`, `1970-01-02`, `1970-01-02T00:00:00+00:01`,
	`1970-01-01T23:59:00-00:01`, `2016-12-31T23:59:60Z`, `2025-05-01T12:00:00.123456789+02:00`, `2262-04-11T23:47:16.854775808Z`, `2025-05-01`,
	`9999-12-31T23:59:59.9999999Z`, `9999-12-31T23:59:60Z`, `9999-12-31T23:59:59-00:01`, `9999-12-31`, `10000-01-01`, `+10000-01-01T00:00:00Z`, `294277-01-01T00:00:00Z`,
}

// TestAcknowledgedLeadsAreKept composes leads of odd values. A seed is printed
// with each failure.
func TestAcknowledgedLeadsAreKept(t *testing.T) {
	o := openOutbox(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	// Each field is usually right, so that many leads are accepted.
	pick := func(right string, odd []string) string {
		if random.IntN(5) > 0 {
			return right
		}
		return odd[random.IntN(len(odd))]
	}
	accepted := 0
	const rounds = 3000
	for i := range rounds {
		body := fmt.Sprintf(`{"first_name":"%s","last_name":"%s","name":"%s","email":"%s","phone":"%s","consent":{"status":"%s","text_snapshot":"%s","captured_at":"%s"}}`,
			pick("Ana", oddTexts), pick("Lima", oddTexts), pick("Ana Lima", oddTexts), pick("ana@example.com", oddTexts), pick("5550100", oddTexts),
			pick("express_written", oddTexts), pick("I agree.", oddTexts), oddTimes[i%len(oddTimes)])
		if acknowledge(t, o, []byte(body), [16]byte{byte(i), byte(i >> 8)}) {
			accepted++
		}
	}
	if accepted < rounds/20 {
		t.Errorf("%d of %d leads accepted", accepted, rounds)
	}
}

// FuzzAcknowledgedLeads: no body is acknowledged as a lead that the origin
// refuses.
func FuzzAcknowledgedLeads(f *testing.F) {
	for _, captured := range oddTimes {
		f.Add([]byte(`{"name":"Ana Lima","email":"ana@example.com","consent":{"captured_at":"` + captured + `"}}`))
	}
	for _, text := range oddTexts {
		f.Add([]byte(`{"name":"` + text + `","phone":"5550100","consent":{"text_snapshot":"` + text + `"}}`))
	}
	f.Add([]byte(`{"name":"Ana Lima","email":"ana@example.com","conse":{"captured_at":"1899-12-30"}}`)) // which asks for no time
	f.Fuzz(func(t *testing.T, body []byte) {
		acknowledge(t, openOutbox(t), body, [16]byte{1})
	})
}

// A module that asks for what the origin refuses gets no acknowledgement.
func TestModulesCannotAcknowledgeWhatTheOriginRefuses(t *testing.T) {
	o := openOutbox(t)
	p := abi.Principal{AccountID: "acc_1", KeyID: "key_1", Environment: abi.EnvLive}
	const year = int64(366 * 86_400 * 1_000_000)
	for name, change := range map[string]func(*abi.Lead){
		"captured in 1969":   func(l *abi.Lead) { l.Captured = -1 },
		"captured after all": func(l *abi.Lead) { l.Captured = 9000 * year },
		"created in 1969":    func(l *abi.Lead) { l.Created = -1 },
		"NUL":                func(l *abi.Lead) { l.Phone = "\x00" },
		"not UTF-8":          func(l *abi.Lead) { l.LastName = "\xff" },
		"no consent status":  func(l *abi.Lead) { l.ConsentStatus = "" },
		"no id":              func(l *abi.Lead) { l.ID = "" },
		"long id":            func(l *abi.Lead) { l.ID = strings.Repeat("x", 201) },
		"long text":          func(l *abi.Lead) { l.ConsentText = strings.Repeat("x", 1<<20+1) },
	} {
		lead := abi.Lead{ID: "lead_1", FirstName: "Ana", Email: "ana@example.com", ConsentStatus: "none", Captured: 1, Created: 1}
		change(&lead)
		if err := o.AppendLead(t.Context(), p, lead.Append(nil)); !errors.Is(err, store.ErrInvalid) || !errors.Is(err, host.ErrInvalid) || o.cfg.Store.Outbox.Len() != 0 {
			t.Errorf("%s: %v, %d wait", name, err, o.cfg.Store.Outbox.Len())
		}
	}
}
