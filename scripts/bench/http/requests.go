package main

import (
	"fmt"
	"slices"
)

// request is one of the requests that are measured.
type request struct {
	name    string
	method  string
	path    string // behind route.Prefix
	body    string
	keys    func(*server) []string // that share the load; nil: it brings none
	answers []string               // the statuses that it may get
}

const leadBody = `{"name":"Ada Lovelace","email":"ada@example.com","phone":"+15125550100",` +
	`"consent":{"status":"express_written","text_snapshot":"Yes, call me about my house."}}`

func liveKeys(s *server) []string { return s.live }
func testKeys(s *server) []string { return s.test }
func slowKeys(s *server) []string { return s.slow }

var me = request{name: "me", method: "GET", path: "agents/me", keys: liveKeys, answers: []string{"200"}}

// others are measured beside agents/me. A slow key's bucket lets one request pass now
// and then.
var others = []request{
	{name: "insights_50", method: "GET", path: "coaching/insights?limit=50", keys: liveKeys, answers: []string{"200"}},
	{name: "lead", method: "POST", path: "leads", body: leadBody, keys: testKeys, answers: []string{"201"}},
	{name: "no_key", method: "GET", path: "agents/me", answers: []string{"401"}},
	{name: "limited", method: "GET", path: "agents/me", keys: slowKeys, answers: []string{"429", "200"}},
}

// text returns the request as the nth connection sends it.
func (r request) text(s *server, nth int) []byte {
	key := ""
	if r.keys != nil {
		keys := r.keys(s)
		key = "Authorization: Bearer " + keys[nth%len(keys)] + "\r\n"
	}
	body := ""
	if r.body != "" {
		body = fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(r.body))
	}
	return fmt.Appendf(nil, "%s /api/v2/public/%s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n%s",
		r.method, r.path, s.addrs[nth%len(s.addrs)], key, body, r.body)
}

func (r request) takes(status string) bool { return slices.Contains(r.answers, status) }
