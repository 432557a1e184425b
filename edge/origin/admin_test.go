package origin

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
)

const (
	accounts = "/admin/v1/accounts"
	none     = "/admin/v1/accounts/acc_none"
)

var stampForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// TestAdmin goes through every answer that openapi.json names, and holds each
// to it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.WrongTokens = 10_000 // of which this test presents many
		c.Tail = func() (<-chan store.Tried, func()) {
			tries := make(chan store.Tried, 1)
			tries <- store.Tried{
				SubscriptionID: "whs_x", TargetURL: "https://partner.example/", EventID: "evt_x", EventType: store.EventSentinelFired,
				State: store.StateDelivered, Attempt: store.Attempt{ID: "dlv_x", Number: 1, StartedAt: time.Now(), Status: 204},
			}
			return tries, func() {}
		}
	})
	f.contract = readContract(t)
	t.Run("accounts", f.subtest(adminAccounts))
	t.Run("keys", f.subtest(adminKeys))
	t.Run("ingest", f.subtest(adminIngest))
	t.Run("ingest once", f.subtest(adminIngestOnce))
	t.Run("quarantine", f.subtest(adminQuarantine))
	t.Run("deliveries", f.subtest(adminDeliveries))
	t.Run("streams", f.subtest(adminStreams))
	t.Run("nodes", f.subtest(adminNodes))
	t.Run("regions", f.subtest(adminRegions))
	t.Run("lockouts", f.subtest(adminLockouts))
	t.Run("requests", f.subtest(adminRequests))
	t.Run("releases", f.subtest(adminReleases))
	t.Run("rollouts", f.subtest(adminRollouts))
	t.Run("erase", f.subtest(adminErase))
	t.Run("tokens", f.subtest(adminTokens))
	t.Run("audit", f.subtest(adminAudit))
	t.Run("traffic", f.subtest(adminTraffic))
	t.Run("document", f.subtest(func(f *fixture) { f.must(200, "GET", "/admin/v1/openapi.json", nil) }))

	_, viewer := f.token(store.RoleViewer)
	for _, r := range adminRoutes(t) {
		method, path := r.method, r.path
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + f.Token(), f.Token(), "Bearer " + f.Token() + "0"} {
			if status, header, text := f.send(method, path, nil, authorization); status != 401 || header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q answered %d %s", r.pattern, authorization, status, text)
			}
		}
		if r.role != store.RoleViewer {
			if status, _, text := f.send(method, path, nil, "Bearer "+viewer); status != 403 || !strings.Contains(string(text), "role_too_low") {
				t.Errorf("%s as a viewer answered %d %s", r.pattern, status, text)
			}
		}
		if method == "GET" {
			continue
		}
		if status, v := f.call(method, path, strings.Repeat(" ", 1<<20+1)); status != 413 || v["error"] != "payload_too_large" {
			t.Errorf("%s of a large body answered %d %v", r.pattern, status, v)
		}
		optional := slices.ContainsFunc([]string{"/revoke", "/rotate", "/rotate-secret", "/retry", "/promote", "/rollback", "/release"}, func(end string) bool {
			return strings.HasSuffix(path, end)
		})
		if !optional && method != "DELETE" {
			f.mustRefuse(400, "json_parse_failed", method, path, nil)
		}
		f.mustRefuse(400, "unknown_field", method, path, `{"nonsense":1}`)
	}
	for _, answer := range slices.Sorted(maps.Keys(f.contract.documented())) {
		limited := slices.ContainsFunc([]string{"/events 429", "/tail 429", "/retry 429", "/recover 429"}, func(end string) bool {
			return strings.HasSuffix(answer, end)
		})
		// Other lists are refused after 25 s, and wrong tokens are TestWrongTokens's.
		busy := strings.HasSuffix(answer, " 429") && !limited
		if !f.contract.seen[answer] && !strings.HasSuffix(answer, " 500") && !busy {
			t.Errorf("openapi.json names %s, which no test met", answer)
		}
	}
	for _, answer := range slices.Sorted(maps.Keys(f.contract.seen)) {
		if !f.contract.documented()[answer] {
			t.Errorf("%s was met, which openapi.json does not name", answer)
		}
	}
}

// subtest makes test a subtest whose failures are its own.
func (f *fixture) subtest(test func(*fixture)) func(*testing.T) {
	return func(t *testing.T) {
		inner := *f
		inner.T = t
		test(&inner)
	}
}

// mustRefuse is call that has to end in a problem of this reason (or, without
// reason, of this kind).
func (f *fixture) mustRefuse(status int, reason, method, path string, body any) {
	f.Helper()
	got, v := f.call(method, path, body)
	if got != status || (v["reason"] != reason && v["error"] != reason) {
		text, _ := json.Marshal(body)
		if len(text) > 200 {
			text = append(text[:200], "…"...)
		}
		f.Errorf("%s %s of %s answered %d %v, want %d %s", method, path, text, got, v, status, reason)
	}
}

// with is a copy of base with one field set, or left out when v is nil.
func with(base object, field string, v any) object {
	out := maps.Clone(base)
	if v == nil {
		delete(out, field)
		return out
	}
	out[field] = v
	return out
}

func adminAccounts(f *fixture) {
	agent := object{"email": "ana@example.com", "full_name": "Ana Silva"}
	good := object{"name": "Harbor", "agent": agent}
	made := f.must(201, "POST", accounts, good)
	id := made["id"].(string)
	if !strings.HasPrefix(id, "acc_") || made["activation_mode"] != "setup" || !stampForm.MatchString(made["created_at"].(string)) ||
		!strings.HasPrefix(made["agent"].(object)["id"].(string), "agt_") || made["agent"].(object)["joined_at"] == nil {
		f.Errorf("made %v", made)
	}
	if got := f.must(200, "GET", accounts+"/"+id, nil); got["id"] != id || got["agent"].(object)["email"] != "ana@example.com" {
		f.Errorf("read %v", got)
	}
	for _, c := range []struct {
		body   any
		reason string
	}{
		{with(good, "name", nil), "name_required"},
		{with(good, "name", " \t"), "name_required"},
		{with(good, "name", strings.Repeat("é", 201)), "name_too_long"},
		{with(good, "name", "a\x00b"), "name_invalid"},
		{with(good, "agent", nil), "agent_required"},
		{with(good, "agent", with(agent, "email", nil)), "agent_email_required"},
		{with(good, "agent", with(agent, "email", "no-at")), "agent_email_invalid"},
		{with(good, "agent", with(agent, "email", "Ana <ana@example.com>")), "agent_email_invalid"},
		{with(good, "agent", with(agent, "email", strings.Repeat("a", 250)+"@x.io")), "agent_email_too_long"},
		{with(good, "agent", with(agent, "full_name", nil)), "agent_full_name_required"},
		{with(good, "activation_mode", "LIVE"), "activation_mode_invalid"},
		{with(good, "name", 7), "invalid_field_type"},
		{with(good, "agent", "Ana"), "invalid_field_type"},
		{with(good, "id", "acc_mine"), "unknown_field"},
		{`{"Name":"Harbor","agent":{}}`, "unknown_field"},
		{`{"name":"a","name":"b"}`, "duplicate_field"},
		{`{"name":"a"} {}`, "json_parse_failed"},
		{`{"name":"a"`, "json_parse_failed"},
		{"{\"name\":\"\xff\"}", "not_utf8"},
		{`[]`, "invalid_field_type"},
		{`null`, "invalid_field_type"},
		{`"text"`, "invalid_field_type"},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), "too_deep"},
	} {
		f.mustRefuse(400, c.reason, "POST", accounts, c.body)
	}

	patched := f.must(200, "PATCH", accounts+"/"+id, object{"activation_mode": "live", "agent": object{"full_name": "Ana B. Silva"}})
	if patched["activation_mode"] != "live" || patched["name"] != "Harbor" || patched["agent"].(object)["full_name"] != "Ana B. Silva" ||
		patched["agent"].(object)["email"] != "ana@example.com" {
		f.Errorf("patched %v", patched)
	}
	if same := f.must(200, "PATCH", accounts+"/"+id, object{}); fmt.Sprint(same) != fmt.Sprint(patched) {
		f.Errorf("an empty patch gave %v", same)
	}
	f.mustRefuse(400, "name_required", "PATCH", accounts+"/"+id, object{"name": ""})
	f.mustRefuse(400, "activation_mode_invalid", "PATCH", accounts+"/"+id, object{"activation_mode": "off"})
	f.mustRefuse(400, "agent_email_invalid", "PATCH", accounts+"/"+id, object{"agent": object{"email": "x"}})
	f.mustRefuse(404, "not_found", "GET", none, nil)
	f.mustRefuse(404, "not_found", "PATCH", none, object{"name": "x"})

	for range 4 {
		f.must(201, "POST", accounts, good)
	}
	var ids []string
	for path := accounts + "?limit=2"; path != ""; {
		page := f.must(200, "GET", path, nil)
		for _, item := range page["items"].([]any) {
			ids = append(ids, item.(object)["id"].(string))
		}
		path = ""
		if next := page["next_cursor"]; next != nil {
			path = accounts + "?limit=2&cursor=" + next.(string)
		}
	}
	if len(ids) != 5 || ids[4] != id || len(slices.Compact(slices.Clone(ids))) != 5 {
		f.Errorf("paged through %v", ids)
	}
	for limit, want := range map[string]int{"0": 1, "-5": 1, "9999999999": 5, "201": 5} {
		if items := f.must(200, "GET", accounts+"?limit="+limit, nil)["items"].([]any); len(items) != want {
			f.Errorf("limit %s gave %d items", limit, len(items))
		}
	}
	f.mustRefuse(400, "limit_not_integer", "GET", accounts+"?limit=ten", nil)
	f.mustRefuse(400, "cursor_invalid", "GET", accounts+"?cursor=nonsense", nil)
}

func adminNodes(f *fixture) {
	good := object{"name": "Node in Dublin", "region": "eu-west"}
	made := f.must(201, "POST", "/admin/v1/nodes", good)
	id := made["node"].(object)["id"].(string)
	if public, name := publicKeyOf(f.T, made["credentials"].(string)); name != id || made["node"].(object)["public_key"] != public {
		f.Errorf("credentials of %s are for %s", id, name)
	}
	for _, c := range []struct {
		field  string
		v      any
		reason string
	}{
		{"name", nil, "name_required"},
		{"name", strings.Repeat("n", 201), "name_too_long"},
		{"region", nil, "region_required"},
		{"region", "eu west", "region_invalid"},
		{"region", "-eu", "region_invalid"},
		{"region", "EU.west", "region_invalid"},
		{"region", strings.Repeat("r", 65), "region_too_long"},
		{"id", "node_mine", "unknown_field"},
	} {
		f.mustRefuse(400, c.reason, "POST", "/admin/v1/nodes", with(good, c.field, c.v))
	}
	_, _, text := f.send("GET", "/admin/v1/nodes", nil, "Bearer "+f.Token())
	if !strings.Contains(string(text), id) || strings.Contains(string(text), "BEGIN") {
		f.Error("the list lacks the node, or shows credentials")
	}
	f.mustRefuse(400, "limit_not_integer", "GET", "/admin/v1/nodes?limit=x", nil)
	f.must(200, "POST", "/admin/v1/nodes/"+id+"/revoke", nil)
	f.must(200, "DELETE", "/admin/v1/nodes/"+id, nil)
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/nodes/node_none/revoke", nil)
	f.mustRefuse(404, "not_found", "DELETE", "/admin/v1/nodes/node_none", nil)
}
