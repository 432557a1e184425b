package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central/usage"
)

// TestKeyPage shows what a key was used for, and leads there from its account.
func TestKeyPage(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	made := func(label string) string {
		t.Helper()
		var made adminapi.MintedKey
		f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "test", "scopes": []string{"read:agent"}, "label": label}, &made)
		return made.Key.ID
	}
	used, unused := made("<shop>"), made("")
	today := store.DayOf(time.Now())
	f.use(used)
	_, text := b.get("keys/" + used)
	for _, want := range []string{
		"<h1>&lt;shop&gt;</h1>", used, "<b>50</b> requests, <b>12</b> of them", today.String(), (today - 1).String(), `<rect class="good" width="75"`, "Rotate", "Revoke", "<dt>Last used</dt><dd>just now",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the key's page lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, (today - 40).String()) {
		t.Error("the key's page has a day from before the last 30")
	}
	if _, text := b.get("keys/" + unused); !strings.Contains(text, "Not used in the last 30 days") || !strings.Contains(text, "<dd>never") {
		t.Errorf("the page of a key that was not used: %s", text)
	}
	if resp, _ := b.get("keys/key_none"); resp.StatusCode != 404 {
		t.Errorf("the page of no key: %d", resp.StatusCode)
	}
	_, text = b.get("accounts/" + f.account.ID)
	for _, want := range []string{fmt.Sprintf(`href="/console/keys/%s"`, used), "50 in 30 days, 12 × 429", "never"} {
		if !strings.Contains(text, want) {
			t.Errorf("the account's page lacks %q: %s", want, text)
		}
	}
	_, viewer := f.token("viewer")
	if _, text := f.login(viewer).get("keys/" + used); strings.Contains(text, "Rotate") || !strings.Contains(text, today.String()) {
		t.Errorf("a viewer sees %s", text)
	}
}

// TestMoreKeysExpire: the overview has the first ten keys that expire soon, and says when there
// are others.
func TestMoreKeysExpire(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	soon := time.Now().Add(5 * 24 * time.Hour).UTC().Format(time.RFC3339)
	for n := range 11 {
		f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "test", "scopes": []string{"read:agent"}, "expires_at": soon}, nil)
		if n < 9 {
			continue
		}
		_, text := b.get("")
		if shown, more := strings.Count(text, `data-label="Expires"`), strings.Contains(text, "More expire as well: <code>edge key expiring</code>"); shown != 10 || more != (n == 10) {
			t.Errorf("of %d keys that expire %d are shown, and it says that there are more: %t", n+1, shown, more)
		}
	}
}

// use has nodes report 40 requests with a key today, 10 yesterday, and 5000 long ago.
func (f *fixture) use(key string) {
	f.Helper()
	today := store.DayOf(time.Now())
	counts := make(map[usage.Counter]usage.Count)
	for day, n := range map[store.Day]int64{today: 40, today - 1: 10, today - 40: 5000} {
		counts[usage.Counter{KeyID: key, Day: day, Node: "node_1", Boot: "b"}] = usage.Count{Requests: n, Limited: n / 4, LastUsed: time.Now(), Vouched: true}
	}
	if _, err := f.db.RecordUsage(f.Context(), counts); err != nil {
		f.Fatal(err)
	}
}

// TestSpans selects a time range of the audit log and of the quarantine.
func TestSpans(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	f.refuse("lead_1900")
	soon := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04")
	for _, c := range []struct{ page, some, none string }{
		{"audit", "account.create", "Nothing was changed, as far"}, {"quarantine", "/console/quarantine/qtn_", "No lead waits of those"},
	} {
		f.call("POST", "/accounts", map[string]any{"name": "Quay", "agent": map[string]string{"email": "bo@example.com", "full_name": "Bo"}}, nil)
		for query, want := range map[string]string{
			"": c.some, "?since=2026-01-01T00:00:01": c.some, "?until=" + soon: c.some, "?since=" + soon: c.none, "?until=2026-01-01T00:00": c.none,
			"?since=yesterday": "Times are such as",
		} {
			resp, text := b.get(c.page + query)
			if resp.StatusCode != 200 || !strings.Contains(text, want) {
				t.Errorf("%s%s is %d without %q: %s", c.page, query, resp.StatusCode, want, text)
			}
			if strings.Contains(query, soon) && !strings.Contains(text, `value="`+soon) {
				t.Errorf("%s%s forgets the time", c.page, query)
			}
		}
	}
}

// TestChartsLeadToRequests finds in each chart the addresses of what was answered, bucket
// by bucket, without a gap.
func TestChartsLeadToRequests(t *testing.T) {
	f := newFixture(t)
	f.startNode("eu", 10)
	b := f.login(f.Token())
	_, text := b.get("")
	for _, status := range []string{"", "status=5xx&amp;", "status=429&amp;"} {
		prefix := `href="/console/requests?since=`
		if status != "" {
			prefix = `&amp;` + status + "until="
		}
		if n := strings.Count(text, prefix); n < 10 {
			t.Errorf("%d buckets with %q: %s", n, status, text)
		}
	}
	to := strings.ReplaceAll(text[strings.Index(text, "/console/requests?since="):][:len("/console/requests?since=2026-01-01T00%3A00%3A00&amp;until=2026-01-01T00%3A00%3A00")], "&amp;", "&")
	if resp, text := b.get(strings.TrimPrefix(to, "/console/")); resp.StatusCode != 200 || !strings.Contains(text, "Nothing found") || !strings.Contains(text, `type="datetime-local" step="1" name="since" value="20`) {
		t.Errorf("%s: %d %s", to, resp.StatusCode, text)
	}
}
