package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestDeliveries finds a delivery by the id that its endpoint was sent, by each filter
// and by the search.
func TestDeliveries(t *testing.T) {
	f := newFixture(t)
	try := f.tryDelivery()
	delivery := f.deliveries()[0]
	b := f.login(f.Token())
	_, text := b.get("deliveries/" + try)
	for _, want := range []string{delivery, "the one that was asked for", "x-svc-signature: t=1", "&lt;b&gt;busy", "no answer within 10s", "hooks.example.com", "&#34;client_id&#34;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the delivery lacks %q: %s", want, text)
		}
	}
	for query, want := range map[string]int{
		"": 3, "?outcome=dead": 1, "?outcome=pending&account_id=" + f.account.ID: 2, "?target=hooks&event_type=client.contacted": 3, "?target=elsewhere": 0,
		"?since=2026-01-01T00:00&until=2026-01-01T00:01": 0,
	} {
		if _, text := b.get("deliveries" + query); strings.Count(text, "its subscription") != want {
			t.Errorf("%q selects %d, want %d", query, strings.Count(text, "its subscription"), want)
		}
	}
	for query, want := range map[string]string{"?since=yesterday": "Times are such as", "?account_id=acc_none": "no such account", "?outcome=lost": "outcome must be"} {
		if resp, text := b.get("deliveries" + query); resp.StatusCode != 200 || !strings.Contains(text, want) {
			t.Errorf("%q is %d without %q", query, resp.StatusCode, want)
		}
	}
	var key struct{ Key struct{ ID string } }
	f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "live", "scopes": []string{"read:agent"}}, &key)
	for id, want := range map[string]string{
		f.account.ID: "accounts/" + f.account.ID, " " + try + " ": "deliveries/" + try, f.webhook.ID: "webhooks/" + f.webhook.ID,
		f.eventOf(delivery): "events/" + f.eventOf(delivery), key.Key.ID: "keys/" + key.Key.ID, "node_x": "nodes", "con_x": "audit",
	} {
		resp, _ := b.get("search?q=" + url.QueryEscape(id))
		if got := strings.TrimPrefix(resp.Request.URL.Path, "/console/"); got != want || resp.StatusCode != 200 {
			t.Errorf("%s is at %s with %d, want %s", id, got, resp.StatusCode, want)
		}
	}
	for _, id := range []string{"", "nonsense", "acc_none", "key_none", "lead_none", "dlv_none", "zzz_x"} {
		if resp, _ := b.get("search?q=" + id); resp.StatusCode != 404 {
			t.Errorf("%q is found: %d", id, resp.StatusCode)
		}
	}
}

// TestFormsKeepWhatFailed: a form that is refused comes back open, with what it had.
func TestFormsKeepWhatFailed(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	for path, c := range map[string]struct {
		form url.Values
		want []string
	}{
		"accounts": {url.Values{"name": {"Quay"}, "full_name": {"Bo"}, "email": {"none"}}, []string{`value="Quay"`, `value="Bo"`, `value="none"`, `card" open>`}},
		"accounts/" + f.account.ID + "/keys": {
			url.Values{"label": {"shop"}, "environment": {"test"}, "rate": {"x"}, "own_scopes": {"x:quotes"}, "allowlist": {"10.0.0.0/8"}, "scope": {"read:agent"}},
			[]string{`value="shop"`, `<option selected>test`, `value="x"`, `value="x:quotes"`, `value="10.0.0.0/8"`, `value="read:agent" checked`, `value="write:leads">`, `card" open>`},
		},
		"nodes":  {url.Values{"name": {"n1"}, "region": {"-"}}, []string{`value="n1"`, `value="-"`, `card" open>`}},
		"tokens": {url.Values{"name": {strings.Repeat("x", 201)}, "role": {"operator"}}, []string{`value="xxx`, `value="operator" selected`, `card" open>`}},
	} {
		_, text := b.post(path, c.form)
		for _, want := range append(c.want, "Not done") {
			if !strings.Contains(text, want) {
				t.Errorf("%s lost %s: %s", path, want, text)
			}
		}
	}
}

// TestExpiringKeys names on the overview the keys that expire soon.
func TestExpiringKeys(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	if _, text := b.get(""); strings.Contains(text, "Keys that expire") {
		t.Error("no key expires, and the overview names some")
	}
	soon := time.Now().Add(5 * 24 * time.Hour).UTC().Format(time.RFC3339)
	f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "live", "scopes": []string{"read:agent"}, "label": "shop", "expires_at": soon}, nil)
	if _, text := b.get(""); !strings.Contains(text, "Keys that expire") || !strings.Contains(text, "<b>shop</b>") {
		t.Errorf("the overview lacks the key: %s", text)
	}
}

// TestTokenExpiry makes a token that expires, and shows when it does.
func TestTokenExpiry(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	_, text := b.post("tokens", url.Values{"name": {"Lee"}, "role": {"viewer"}, "days": {"7"}})
	end := time.Now().Add(7 * 24 * time.Hour).UTC().Format(time.DateOnly)
	if !strings.Contains(text, `data-label="Expires">`+end) || !strings.Contains(text, `data-label="Last used">never`) {
		t.Errorf("the token is shown as %s", text)
	}
}
