package console_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// rows downloads a table, and returns it by the names of its columns.
func (b *browser) rows(path string) (rows []map[string]string) {
	b.Helper()
	resp, text := b.get(path)
	kind, file := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Disposition")
	if resp.StatusCode != 200 || kind != "text/csv; charset=utf-8" || !strings.HasPrefix(file, `attachment; filename="`) {
		b.Fatalf("%s: %d, %s, %s\n%s", path, resp.StatusCode, kind, file, text)
	}
	text, found := strings.CutPrefix(text, "\ufeff")
	if !found {
		b.Fatalf("%s does not say that it is UTF-8: Excel needs a byte order mark\n%s", path, text)
	}
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		b.Fatalf("%s: %v\n%s", path, err, text)
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestDownloads has each list as CSV: all pages of what the page selects, and no cell that
// a spreadsheet would take for a formula.
func TestDownloads(t *testing.T) {
	f := newFixture(t)
	f.tryDelivery()
	for range 58 { // with those of the fixture more than a page
		if _, _, err := f.db.AddContact(t.Context(), store.Contact{AccountID: f.account.ID, ClientID: "c", Channel: "sms"}); err != nil {
			t.Fatal(err)
		}
	}
	_, token := f.token("viewer")
	b := f.login(token)

	if _, page := b.get("deliveries?outcome=pending&cursor="); !strings.Contains(page, `href="/console/deliveries.csv?outcome=pending"`) {
		t.Errorf("the page does not lead to its CSV: %s", page)
	}
	ids := map[string]bool{}
	for _, row := range b.rows("deliveries.csv?account_id=" + f.account.ID) {
		ids[row["delivery"]] = row["event_type"] == "client.contacted" && row["account"] == f.account.ID && row["subscription"] == f.webhook.ID
	}
	if want := f.deliveries(); len(ids) != 61 || !slices.ContainsFunc(want, func(id string) bool { return ids[id] }) {
		t.Errorf("%d deliveries: %v", len(ids), ids)
	}
	tried := b.rows("deliveries.csv?outcome=dead")
	if len(tried) != 1 || tried[0]["state"] != "dead" || tried[0]["last_error"] == "" && tried[0]["last_status"] == "" {
		t.Errorf("the dead ones are %v", tried)
	}
	if none := b.rows("deliveries.csv?target=elsewhere"); len(none) != 0 {
		t.Errorf("none are selected, and there are %v", none)
	}

	names := []string{"=1+1", "+49", "-2", "@SUM(A1)", "Sam;=cmd|'/C calc'!A0;x", "José, \"the\" agent", "o'Hara"}
	safe := []string{"'=1+1", "'+49", "'-2", "'@SUM(A1)", "Sam;'=cmd|'/C calc'!A0;x", "José, \"the\" agent", "o'Hara"}
	var leads []central.OfferedLead
	for i := range 210 { // more than a page
		lead := store.Lead{
			ID: fmt.Sprintf("lead_%03d", i), AccountID: f.account.ID, Environment: store.Live, FirstName: names[i%len(names)], Phone: "+1 555 010 0000",
			ConsentStatus: "none", CreatedAt: time.Now().UTC(),
		}
		body, err := json.Marshal(lead)
		if err != nil {
			t.Fatal(err)
		}
		leads = append(leads, central.OfferedLead{AcceptedLead: store.AcceptedLead{Lead: lead}, Vouched: true, Body: body})
	}
	if done, err := f.db.AddLeads(t.Context(), "node_1", leads); err != nil || len(done.Committed) != len(leads) {
		t.Fatal(len(done.Committed), err)
	}
	got := map[string]int{}
	if _, page := b.get("accounts/" + f.account.ID); strings.Contains(page, "leads.csv") {
		t.Error("a viewer is offered the leads")
	}
	if resp, text := b.get("accounts/" + f.account.ID + "/leads.csv"); resp.StatusCode != 403 || !strings.Contains(text, "needs the role admin") {
		t.Errorf("a viewer's download of leads: %d\n%s", resp.StatusCode, text)
	}
	b = f.login(f.Token())
	rows := b.rows("accounts/" + f.account.ID + "/leads.csv")
	for _, row := range rows {
		got[row["first_name"]]++
		if row["phone"] != "'+1 555 010 0000" {
			t.Fatalf("a phone is %q", row["phone"])
		}
	}
	if len(rows) != 210 || len(got) != len(names) {
		t.Errorf("%d leads: %v", len(rows), got)
	}
	for _, want := range safe {
		if got[want] != 30 {
			t.Errorf("%q is there %d times: %v", want, got[want], got)
		}
	}

	conn, id := f.enrol("=n1", "eu")
	f.answerRequests(conn, id, nil)
	found := b.rows("requests.csv?q=" + loggedRequest)
	if len(found) != 1 || found[0]["request"] != loggedRequest || found[0]["reason"] != "name_required" || found[0]["node"] != "'=n1" || found[0]["duration_ms"] != "1.5" {
		t.Errorf("the request is %v", found)
	}

	if _, page := b.get("requests"); !strings.Contains(page, "the newest 200 at most") {
		t.Error("the page of requests does not say how many a download has")
	}
	if _, err := f.api.EnrolNode(t.Context(), "n2", "us"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"": "Not known of n2 in us: not connected", "?q=lead_x": "Nothing found: that is no id of a request"} {
		if resp, text := b.get("requests.csv" + query); resp.StatusCode != 400 || !strings.Contains(text, want) {
			t.Errorf("requests.csv%s: %d\n%s", query, resp.StatusCode, text)
		}
	}
	for path, want := range map[string]int{
		"deliveries.csv?since=yesterday": 400, "deliveries.csv?outcome=lost": 400, "requests.csv?status=x": 400, "accounts/acc_none/leads.csv": 404,
	} {
		if resp, text := b.get(path); resp.StatusCode != want || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/csv") {
			t.Errorf("%s: %d\n%s", path, resp.StatusCode, text)
		}
	}
	for _, path := range []string{"deliveries.csv", "requests.csv", "accounts/" + f.account.ID + "/leads.csv"} {
		if resp, _ := f.browser().get(path); resp.Request.URL.Path != "/console/login" {
			t.Errorf("%s is served without a login", path)
		}
	}
}
