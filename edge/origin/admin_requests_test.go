package origin

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// answerRequests has a node answer from a log of these requests.
func (m *enrolled) answerRequests(log ...wire.AnsweredRequest) {
	m.Helper()
	if _, err := m.conn.Subscribe(wire.ToNode+m.address+"."+wire.VerbRequests, func(q *nats.Msg) {
		var req wire.RequestsRequest
		if err := wire.Decode(q.Data, &req); err != nil {
			m.Error(err)
		}
		reply := &wire.RequestsReply{}
		for _, r := range log {
			if req.ID == r.ID || req.ID == "" && r.KeyID != "" && (req.AccountID == r.AccountID || req.KeyID == r.KeyID) {
				reply.Requests = append(reply.Requests, r)
			}
		}
		body, err := wire.Encode(reply)
		if err != nil {
			m.Error(err)
		}
		if err := q.Respond(body); err != nil {
			m.Error(err)
		}
	}); err != nil {
		m.Fatal(err)
	}
	if err := m.conn.Flush(); err != nil {
		m.Fatal(err)
	}
}

func adminRequests(f *fixture) {
	id := func(n string) string { return "req_" + strings.Repeat("0", 26-len(n)) + n }
	at := time.Date(2026, 3, 2, 14, 5, 11, 0, time.UTC)
	f.enrol("log-1").answerRequests(
		wire.AnsweredRequest{ID: id("1"), At: at, TookUS: 1234, KeyID: "key_1", AccountID: "acc_1", Method: "GET", Route: "/api/v2/public/agents/me", Status: 200},
		wire.AnsweredRequest{ID: id("2"), At: at, Method: "GET", Status: 401, Code: "unauthorized", Reason: "unknown_api_key"})
	f.enrol("log-2").answerRequests(
		wire.AnsweredRequest{ID: id("3"), At: at.Add(time.Second), KeyID: "key_1", AccountID: "acc_1", Method: "POST", Route: "/api/v2/public/leads", Status: 429, Code: "rate_limited", Reason: "rate_limited"})
	f.enrol("log-away").conn.Close()

	if v := f.must(200, "GET", "/admin/v1/requests/"+id("1"), nil); v["node"] != "log-1" || v["duration_ms"] != 1.234 || v["route"] != "/api/v2/public/agents/me" {
		f.Errorf("found %v", v)
	}
	if v := f.must(200, "GET", "/admin/v1/requests/"+id("2"), nil); v["reason"] != "unknown_api_key" || v["key_id"] != "" {
		f.Errorf("found %v", v)
	}
	f.mustRefuse(400, "request_id_invalid", "GET", "/admin/v1/requests/req_1", nil)
	v := f.must(404, "GET", "/admin/v1/requests/"+id("4"), nil)
	if detail, _ := v["detail"].(string); v["reason"] != "request_not_kept" || !strings.Contains(detail, "log-away in eu-west (not connected") {
		f.Errorf("of none: %v", v)
	}
	for _, path := range []string{"/admin/v1/accounts/acc_1/requests", "/admin/v1/keys/key_1/requests"} {
		v := f.must(200, "GET", path, nil)
		raw, _ := json.Marshal(v)
		items := v["items"].([]any)
		if len(items) != 2 || items[0].(object)["id"] != id("3") || items[1].(object)["node"] != "log-1" || !strings.Contains(string(raw), `"node":"log-away"`) {
			f.Errorf("%s: %s", path, raw)
		}
		if items := f.must(200, "GET", path+"?limit=1", nil)["items"].([]any); len(items) != 1 {
			f.Errorf("%s, one at most: %v", path, items)
		}
		f.mustRefuse(400, "limit_not_integer", "GET", path+"?limit=x", nil)
	}
	// Nodes that predate the filters answer as ever, and the origin leaves out the rest.
	for query, want := range map[string]int{
		"?account_id=acc_1": 2, "?key_id=key_1": 2, "?account_id=acc_2": 0, "?key_id=key_1&status=429": 1, "?key_id=key_1&status=2xx": 1,
		"?key_id=key_1&since=2026-03-02T14:05:12Z": 1, "?key_id=key_1&until=2026-03-02T14:05:12Z": 1, "?key_id=key_1&region=eu-west": 2, "?key_id=key_1&region=us": 0,
	} {
		v := f.must(200, "GET", "/admin/v1/requests"+query, nil)
		if items := v["items"].([]any); len(items) != want {
			f.Errorf("%s lists %v, want %d", query, items, want)
		}
		if away := len(v["unreached"].([]any)); (away == 0) != strings.Contains(query, "=us") {
			f.Errorf("%s: %d nodes did not answer", query, away)
		}
	}
	for _, status := range []string{"9xx", "0xx", "99", "600", "x", "xx"} {
		f.mustRefuse(400, "status_invalid", "GET", "/admin/v1/requests?status="+status, nil)
	}
	f.mustRefuse(400, "since_invalid", "GET", "/admin/v1/requests?since=yesterday", nil)
}
