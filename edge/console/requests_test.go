package console_test

import (
	"strings"
	"testing"

	"partneredge/edge/wire"
)

// TestRequests finds the request of an id, and those of an account and of a key, and
// names the node that is away.
func TestRequests(t *testing.T) {
	f := newFixture(t)
	_, token := f.token("viewer")
	b := f.login(token)
	conn, node := f.enrol("n1", "eu")
	if _, err := f.api.EnrolNode(t.Context(), "n2", "us"); err != nil {
		t.Fatal(err)
	}
	const id, key = loggedRequest, "key_01kanq3v7yf4pss7c3kxq5d2aw"
	account := f.account.ID
	f.answerRequests(conn, node, func(req wire.RequestsRequest) bool {
		return req.ID == id || req.ID == "" && req.AccountID != "acc_2"
	})
	if _, text := b.get("search?q=" + id); !strings.Contains(text, "name_required") {
		t.Errorf("the search for an id leads to %s", text)
	}
	for query, wants := range map[string][]string{
		"":                         {"X-Request-Id, account or key", id, "req_01kvj2t3m8f4tbxw6m0c2r9e5k", "n2 in us: not connected"},
		"?status=5xx":              {"req_01kvj2t3m8f4tbxw6m0c2r9e5k", `value="5xx" selected`},
		"?status=5xx&q=" + account: {"Nothing found."},
		"?region=us":               {"Nothing found.", "n2 in us: not connected"},
		"?since=2026-01-01T00:00:01&until=2026-01-01T00:01": {"Nothing found.", `value="2026-01-01T00:00:01"`},
		"?since=yesterday":         {"Times are such as", "Nothing found."},
		"?status=x":                {"status must be such as"},
		"?q=" + id:                 {"<code>" + id + "</code>", "name_required", "1.5 ms", `value="` + id + `"`},
		"?q=%20" + account + "%20": {id, "n2 in us: not connected"},
		"?q=" + key:                {id, "n2 in us: not connected"},
		"?q=acc_2":                 {"Nothing found.", "n2 in us: not connected"},
		"?q=req_1":                 {"Nothing found: a request&#39;s id is req_ and 26 characters"},
		"?q=" + id[:29] + "0":      {"Nothing found: no node keeps it", "not asked: n2 in us (not connected"},
		"?q=" + `"><b>`:            {"Nothing found: that is no id", "&#34;&gt;&lt;b&gt;"},
	} {
		_, text := b.get("requests" + query)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s: %s", query, want, text)
			}
		}
	}
}
