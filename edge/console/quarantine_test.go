package console_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// TestQuarantine mends a lead by the page's form, which keeps what was typed when
// the lead is refused again.
func TestQuarantine(t *testing.T) {
	f := newFixture(t)
	_, operator := f.token("operator")
	_, viewer := f.token("viewer")
	b := f.login(operator)
	if _, text := b.get("quarantine"); !strings.Contains(text, "No lead waits") {
		t.Error("an empty quarantine is not said to be empty")
	}
	unwanted, id := f.refuse("lead_unwanted"), f.refuse("lead_1900")
	if _, text := b.get("quarantine"); !strings.Contains(text, "lead_1900") || !strings.Contains(text, "time outside the years") {
		t.Errorf("the list lacks the lead or the reason: %s", text)
	}
	_, text := b.get("quarantine/" + id)
	for _, want := range []string{"time outside the years", `name="first_name" value="Ana &lt;b&gt;"`, `name="captured_at" value="1900-01-01T00:00:00Z"`, "&#34;id&#34;:&#34;lead_1900&#34;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s: %s", want, text)
		}
	}
	typed := url.Values{
		"id": {"lead_1900"}, "account_id": {f.account.ID}, "key_id": {""}, "environment": {"live"}, "first_name": {"Ana"}, "last_name": {`Typed "so"`}, "email": {"ana@example.com"}, "phone": {""},
		"consent_status": {"express_written"}, "consent_text": {"Yes."}, "captured_at": {"yesterday"}, "created_at": {"2026-01-02T03:04:05Z"}, "outreach_allowed": {"true"},
	}
	resp, text := b.post("quarantine/"+id+"/release", maps.Clone(typed))
	if !strings.HasSuffix(resp.Request.URL.Path, id) || !strings.Contains(text, "Not done: captured_at must be") {
		t.Errorf("refused at %s with %s", resp.Request.URL, text)
	}
	for _, want := range []string{`value="Typed &#34;so&#34;"`, `value="yesterday"`, `<option value="true" selected>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the form did not keep %s: %s", want, text)
		}
	}
	typed.Set("captured_at", "")
	typed.Del("csrf")
	if _, text := b.post("quarantine/"+id+"/release", typed); !strings.Contains(text, "Lead released") || strings.Contains(text, "lead_1900") {
		t.Errorf("release: %s", text)
	}
	leads, _, err := f.db.Leads(t.Context(), f.account.ID, store.Page{})
	if err != nil || len(leads) != 1 || leads[0].ID != "lead_1900" || leads[0].LastName != `Typed "so"` || !leads[0].OutreachAllowed {
		t.Errorf("kept %+v, %v", leads, err)
	}
	if _, text := b.get("quarantine/" + id); !strings.Contains(text, "released") || strings.Contains(text, "Mend and release") || strings.Contains(text, "Ana") {
		t.Errorf("the lead is offered again, or its data is still there: %s", text)
	}

	v := f.login(viewer)
	if _, text := v.get("quarantine/" + unwanted); strings.Contains(text, "Release</button>") || !strings.Contains(text, "lead_unwanted") {
		t.Error("a viewer is offered to release, or does not see the lead")
	}
	if resp, _ := v.post("quarantine/"+unwanted+"/discard", nil); resp.StatusCode == 200 && strings.Contains(resp.Request.URL.Path, "discarded") {
		t.Error("a viewer discards")
	}
	if _, text := b.get("quarantine/" + unwanted); !strings.Contains(text, "Mend and release") {
		t.Error("the viewer's form was obeyed")
	}
	if _, text := b.post("quarantine/"+unwanted+"/discard", nil); !strings.Contains(text, "Lead discarded") || !strings.Contains(text, "No lead waits") {
		t.Errorf("discard: %s", text)
	}
}

// TestReleaseKeepsWhatWasNotMended posts the form as a browser does, which takes
// line ends out of an input and makes those of a text area CR LF.
func TestReleaseKeepsWhatWasNotMended(t *testing.T) {
	f := newFixture(t)
	_, operator := f.token("operator")
	b := f.login(operator)
	for name, c := range map[string]struct{ received, typed, want string }{
		"untouched":  {"\nI agree\r\nto calls.\n", "\r\nI agree\r\nto calls.\r\n", "\nI agree\r\nto calls.\n"},
		"rewritten":  {"I agree.", "I agree\r\nto calls.", "I agree\nto calls."},
		"taken away": {"I agree.", "", ""},
	} {
		l := store.Lead{
			ID: "lead_" + name[:5], AccountID: f.account.ID, Environment: store.Live, FirstName: "Ana\nMaria", Email: "ana@example.com",
			ConsentStatus: "express_written", ConsentText: c.received, CapturedAt: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), OutreachAllowed: true,
		}
		l.CreatedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		body, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.db.AddLeads(t.Context(), "node_x", []central.OfferedLead{{AcceptedLead: store.AcceptedLead{Lead: l}, Body: body}}); err != nil {
			t.Fatal(err)
		}
		waiting, _, err := f.db.QuarantinedLeads(t.Context(), store.Span{}, store.Page{Limit: 1})
		if err != nil || len(waiting) != 1 {
			t.Fatal(waiting, err)
		}
		path := "quarantine/" + waiting[0].ID
		if _, text := b.get(path); !strings.Contains(text, "<textarea name=\"consent_text\" rows=\"4\">\n"+c.received) {
			t.Errorf("%s: the text of consent is not in a text area: %s", name, text)
		}
		if _, text := b.post(path+"/release", url.Values{
			"id": {l.ID}, "account_id": {l.AccountID}, "key_id": {""}, "environment": {"live"}, "first_name": {"AnaMaria"}, "last_name": {""}, "email": {l.Email}, "phone": {""},
			"consent_status": {l.ConsentStatus}, "consent_text": {c.typed}, "captured_at": {""}, "created_at": {"2026-01-02T03:04:05Z"}, "outreach_allowed": {"true"},
		}); !strings.Contains(text, "Lead released") {
			t.Fatalf("%s: %s", name, text)
		}
		leads, _, err := f.db.Leads(t.Context(), f.account.ID, store.Page{})
		if err != nil || len(leads) == 0 {
			t.Fatal(leads, err)
		}
		for _, kept := range leads {
			if kept.ID == l.ID && (kept.ConsentText != c.want || kept.FirstName != l.FirstName || !kept.OutreachAllowed || !kept.CapturedAt.IsZero()) {
				t.Errorf("%s: kept %+v, want the text %q", name, kept, c.want)
			}
		}
	}
}
