package origin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

func adminDeliveries(f *fixture) {
	account := f.account("live")
	at := accounts + "/" + account
	keyID, _ := f.key(account, "live")
	node := f.enrol("deliveries")
	r := ask[wire.SubscribeReply](node, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, KeyHash: f.hash(keyID), Subscription: store.Subscription{
		ID: "whs_x", AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Description: new("hook"), Secret: strings.Repeat("a1", 32), CreatedAt: time.Now().UTC(),
	}})
	if r.Failure != "" {
		f.Fatal(r)
	}
	f.must(200, "GET", at+"/webhooks", nil)
	event := f.must(201, "POST", at+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string)

	log := "/admin/v1/webhooks/whs_x/deliveries"
	item := f.must(200, "GET", log, nil)["items"].([]any)[0].(object)
	if item["event_id"] != event || item["state"] != "pending" || item["attempts"] != 0.0 || len(item["tries"].([]any)) != 0 {
		f.Errorf("the log shows %v", item)
	}
	if items := f.must(200, "GET", log+"?state=dead", nil)["items"].([]any); len(items) != 0 {
		f.Errorf("dead are %v", items)
	}
	if items := f.must(200, "GET", log+"?state=pending&event_id="+event, nil)["items"].([]any); len(items) != 1 {
		f.Errorf("pending of the event are %v", items)
	}
	f.mustRefuse(400, "state_invalid", "GET", log+"?state=lost", nil)
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/webhooks/whs_none/deliveries", nil)

	retry := "/admin/v1/deliveries/" + item["id"].(string) + "/retry"
	if v := f.must(200, "POST", retry, nil); v["state"] != "pending" || v["id"] != item["id"] {
		f.Errorf("retried %v", v)
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/deliveries/dlv_none/retry", nil)
	f.try(item["id"].(string))
	tried := f.must(200, "GET", log+"?state=dead", nil)["items"].([]any)[0].(object)
	tries := tried["tries"].([]any)
	if tried["attempts"] != 2.0 || len(tries) != 2 {
		f.Fatalf("after two tries %v", tried)
	}
	if a, b := tries[0].(object), tries[1].(object); a["status"] != nil || a["error"] != "connection refused" || b["status"] != 503.0 ||
		b["latency_ms"] != 1.5 || b["response_excerpt"] != "busy" || b["request_headers"].(object)["x-svc-event"] != "sentinel.fired" {
		f.Errorf("the tries are %v", tries)
	}
	all := "/admin/v1/deliveries"
	for query, want := range map[string]int{
		"": 1, "?outcome=dead&account_id=" + account: 1, "?outcome=failed": 1, "?outcome=pending": 0, "?target=partner.example&event_type=sentinel.fired": 1,
		"?target=elsewhere": 0, "?since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:01Z": 0,
	} {
		if items := f.must(200, "GET", all+query, nil)["items"].([]any); len(items) != want {
			f.Errorf("of all, %q selects %v", query, items)
		}
	}
	f.mustRefuse(400, "since_invalid", "GET", all+"?since=yesterday", nil)
	f.mustRefuse(400, "event_type_invalid", "GET", all+"?event_type=nonsense", nil)
	f.mustRefuse(404, "not_found", "GET", all+"?account_id=acc_none", nil)
	quoted := f.must(200, "GET", all+"/"+tries[1].(object)["id"].(string), nil)
	if quoted["id"] != item["id"] || quoted["target_url"] != "https://partner.example/" || !strings.HasPrefix(quoted["body"].(string), `{"id":"`+event) {
		f.Errorf("by the id of a try %v", quoted)
	}
	f.must(200, "GET", "/admin/v1/keys/"+keyID, nil)
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/keys/key_none", nil)
	if items := f.must(200, "GET", "/admin/v1/keys", nil)["items"].([]any); len(items) != 0 {
		f.Errorf("within 30 days expire %v", items)
	}
	if items := f.must(200, "GET", "/admin/v1/keys?expires_before=2100-01-01T00:00:00Z&limit=200", nil)["items"].([]any); len(items) == 0 {
		f.Error("no key expires before 2100")
	}
	f.mustRefuse(400, "expires_before_invalid", "GET", "/admin/v1/keys?expires_before=soon", nil)
	f.outcomes(event, item["id"].(string))
	f.recoversAll(item["id"].(string))
	recover := "/admin/v1/webhooks/whs_x/recover"
	if v := f.must(200, "POST", recover, object{"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:01Z"}); v["queued"] != 0.0 {
		f.Errorf("recovered of another time %v", v)
	}
	if v := f.must(200, "POST", recover, object{"since": "2026-01-01T00:00:00Z", "cursor": "evt_z"}); v["queued"] != 0.0 || v["next_cursor"] != nil {
		f.Errorf("recovered after it %v", v)
	}
	if v := f.must(200, "POST", recover, object{"since": "2026-01-01T00:00:00Z"}); v["queued"] != 1.0 || v["next_cursor"] != nil {
		f.Errorf("recovered %v", v)
	}
	f.mustRefuse(400, "since_required", "POST", recover, object{})
	f.mustRefuse(400, "since_invalid", "POST", recover, object{"since": "yesterday"})
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/webhooks/whs_none/recover", object{"since": "2026-01-01T00:00:00Z"})
	f.throttled(retry, nil)
	f.throttled(recover, object{"since": "2026-01-01T00:00:00Z"})
	f.must(200, "POST", recover, object{"since": "2026-01-01T00:00:00Z", "cursor": "evt_z"}) // what goes on is not counted
	f.rotations("whs_x", keyID)
	f.retriesAgain(account, keyID)
}

// try a delivery twice, to no avail.
func (f *fixture) try(delivery string) {
	f.Helper()
	at := time.Now()
	for _, o := range []deliveries.Outcome{
		{State: store.StatePending, NextAt: at, Attempt: store.Attempt{
			ID: "dlv_1", DeliveryID: delivery, Number: 1, StartedAt: at, Error: "connection refused",
		}},
		{State: store.StateDead, Attempt: store.Attempt{
			ID: store.NewAttemptID(delivery, at), DeliveryID: delivery, Number: 2, StartedAt: at, Latency: 1500 * time.Microsecond, Status: 503,
			Headers: map[string]string{"x-svc-event": "sentinel.fired"}, Excerpt: "busy",
		}},
	} {
		if err := f.config.DB.RecordOutcomes(f.Context(), []deliveries.Outcome{o}); err != nil {
			f.Fatal(err)
		}
	}
}

// recoversAll recovers a dead delivery with those of all subscriptions, and has it die again.
func (f *fixture) recoversAll(delivery string) {
	f.Helper()
	all := "/admin/v1/deliveries/recover"
	if v := f.must(200, "POST", all, object{"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:01Z"}); v["queued"] != 0.0 || v["next_cursor"] != nil {
		f.Errorf("recovered of another time %v", v)
	}
	if v := f.must(200, "POST", all, object{"since": "2026-01-01T00:00:00Z", "cursor": "whs_y"}); v["queued"] != 0.0 {
		f.Errorf("recovered after it %v", v)
	}
	if v := f.must(200, "POST", all, object{"since": "2026-01-01T00:00:00Z"}); v["queued"] != 1.0 || v["next_cursor"] != nil {
		f.Errorf("recovered of all %v", v)
	}
	if v := f.must(200, "GET", "/admin/v1/deliveries/"+delivery, nil); v["state"] != "pending" {
		f.Errorf("recovered, it is %v", v)
	}
	f.mustRefuse(400, "since_required", "POST", all, object{})
	f.mustRefuse(400, "until_invalid", "POST", all, object{"since": "2026-01-01T00:00:00Z", "until": "today"})
	f.throttled(all, object{"since": "2100-01-01T00:00:00Z"})
	f.must(200, "POST", all, object{"since": "2100-01-01T00:00:00Z", "cursor": "whs_y"}) // what goes on is not counted
	if err := f.config.DB.RecordOutcomes(f.Context(), []deliveries.Outcome{{State: store.StateDead, Attempt: store.Attempt{
		ID: "dlv_9", DeliveryID: delivery, Number: 3, StartedAt: time.Now(), Error: "connection refused",
	}}}); err != nil {
		f.Fatal(err)
	}
}

// outcomes of an event whose only delivery is dead, by every way to ask.
func (f *fixture) outcomes(event, delivery string) {
	f.Helper()
	if v := f.must(200, "GET", "/admin/v1/deliveries/"+delivery, nil); v["state"] != "dead" || len(v["tries"].([]any)) != 2 {
		f.Errorf("the delivery is %v", v)
	}
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/deliveries/dlv_none", nil)
	for _, log := range []string{"/admin/v1/events/" + event + "/deliveries", "/admin/v1/webhooks/whs_x/deliveries"} {
		for query, want := range map[string]int{
			"": 1, "?outcome=failed": 1, "?outcome=failed&state=dead": 1, "?state=dead": 1, "?outcome=pending": 0, "?outcome=delivered": 0,
			"?outcome=cancelled": 0, "?outcome=refused": 0,
		} {
			if items := f.must(200, "GET", log+query, nil)["items"].([]any); len(items) != want {
				f.Errorf("%s%s lists %d, want %d", log, query, len(items), want)
			}
		}
		f.mustRefuse(400, "outcome_invalid", "GET", log+"?outcome=lost", nil)
		f.mustRefuse(400, "outcome_invalid", "GET", log+"?outcome=failed&state=pending", nil)
		f.mustRefuse(400, "cursor_invalid", "GET", log+"?cursor=nonsense", nil)
	}
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/events/evt_none/deliveries", nil)
}

// throttled calls until the answer is 429.
func (f *fixture) throttled(path string, body any) {
	f.Helper()
	for range 500 {
		status, header, text := f.send("POST", path, body, "Bearer "+f.Token())
		if status == 429 {
			if n, err := strconv.Atoi(header.Get("Retry-After")); err != nil || n < 1 || !strings.Contains(string(text), "rate_limited") {
				f.Errorf("429 with Retry-After %q: %s", header.Get("Retry-After"), text)
			}
			return
		}
	}
	f.Errorf("%s is taken without end", path)
}

// rotations of a subscription's secret: it signs with the one before as well,
// and shows the new one once.
func (f *fixture) rotations(id, keyID string) {
	f.Helper()
	rotate := "/admin/v1/webhooks/" + id + "/rotate-secret"
	before := f.secrets(id)
	v := f.must(201, "POST", rotate, nil)
	secret, until := v["secret"].(string), v["overlap_until"].(string)
	if shown := v["webhook"].(object); len(secret) != 64 || shown["id"] != id || !stampForm.MatchString(until) {
		f.Errorf("rotated %v", v)
	}
	if got := f.secrets(id); !slices.Equal(got, []string{secret, before[0]}) {
		f.Errorf("in force are %d secrets", len(got))
	}
	if status, v := f.call("POST", rotate, nil); status != 409 || !strings.Contains(fmt.Sprint(v["detail"]), "signs until "+until[:19]) {
		f.Errorf("rotated again: %d %v", status, v)
	}
	if got := f.secrets(id); !slices.Equal(got, []string{secret, before[0]}) {
		f.Errorf("after a rotation that was refused %d secrets are in force", len(got))
	}
	second := f.must(201, "POST", rotate, object{"overlap_seconds": 0})["secret"].(string)
	if got := f.secrets(id); !slices.Equal(got, []string{second}) {
		f.Errorf("without an overlap %d secrets are in force", len(got))
	}
	f.mustRefuse(400, "overlap_seconds_invalid", "POST", rotate, object{"overlap_seconds": -1})
	f.mustRefuse(400, "overlap_seconds_invalid", "POST", rotate, object{"overlap_seconds": 31 * 24 * 3600})
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/webhooks/whs_none/rotate-secret", nil)
	_, _, text := f.send("GET", "/admin/v1/audit?target="+id, nil, "Bearer "+f.Token())
	if n := strings.Count(string(text), "webhook.rotate_secret"); n != 2 {
		f.Errorf("%d rotations in the audit log", n)
	}
	_, _, shown := f.send("GET", "/admin/v1/webhooks/"+id, nil, "Bearer "+f.Token())
	for _, s := range []string{secret, second, before[0]} {
		if strings.Contains(string(text)+string(shown)+f.logs.String(), s) {
			f.Error("a secret is shown again")
		}
	}
	f.revokeWebhook(id, keyID)
	f.mustRefuse(409, "conflict", "POST", rotate, nil)
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/webhooks/whs_none", nil)
}

// revokeWebhook ends the only active subscription of a key, which the key's revocation
// leaves and names.
func (f *fixture) revokeWebhook(id, keyID string) {
	f.Helper()
	if named, _ := f.must(200, "POST", "/admin/v1/keys/"+keyID+"/revoke", nil)["webhooks"].([]any); len(named) != 1 || named[0].(object)["id"] != id {
		f.Errorf("the revocation of its key names %v", named)
	}
	revoke := "/admin/v1/webhooks/" + id + "/revoke"
	v := f.must(200, "POST", revoke, nil)
	if v["id"] != id || v["state"] != "revoked" || v["revoked_at"] == nil {
		f.Errorf("revoked, it is %v", v)
	}
	if items := f.must(200, "GET", "/admin/v1/webhooks/"+id+"/deliveries?state=pending", nil)["items"].([]any); len(items) != 0 {
		f.Errorf("deliveries wait for it still: %v", items)
	}
	if again := f.must(200, "POST", revoke, object{}); again["revoked_at"] != v["revoked_at"] {
		f.Errorf("revoked again at %v", again["revoked_at"])
	}
	if named := f.must(200, "POST", "/admin/v1/keys/"+keyID+"/revoke", nil)["webhooks"]; named != nil {
		f.Errorf("revoked, it is named still: %v", named)
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/webhooks/whs_none/revoke", nil)
	_, _, text := f.send("GET", "/admin/v1/audit?target="+id, nil, "Bearer "+f.Token())
	if n := strings.Count(string(text), "webhook.revoke"); n != 1 {
		f.Errorf("%d revocations in the audit log", n)
	}
}

func (f *fixture) secrets(id string) []string {
	f.Helper()
	endpoints, err := f.config.DB.Endpoints(f.Context(), []string{id})
	if err != nil {
		f.Fatal(err)
	}
	return endpoints[id].Secrets
}

// subscribe makes a live subscription to firings.
func (f *fixture) subscribe(id, account, keyID string) {
	f.Helper()
	if err := f.config.DB.AddSubscription(f.Context(), store.Subscription{
		ID: id, AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("b2", 32), CreatedAt: time.Now().UTC(),
	}); err != nil {
		f.Fatal(err)
	}
}

// retriesAgain: what waits for its next try is brought forward, and nothing is
// queued for an account that is not live.
func (f *fixture) retriesAgain(account, keyID string) {
	f.Helper()
	f.subscribe("whs_y", account, keyID)
	at := accounts + "/" + account
	f.must(201, "POST", at+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	id := f.must(200, "GET", "/admin/v1/webhooks/whs_y/deliveries", nil)["items"].([]any)[0].(object)["id"].(string)
	began := time.Now()
	if err := f.config.DB.RecordOutcomes(f.Context(), []deliveries.Outcome{{State: store.StatePending, NextAt: began.Add(time.Hour), Attempt: store.Attempt{
		ID: "dlv_3", DeliveryID: id, Number: 1, StartedAt: began, Error: "refused by guard: host_not_public: 10.0.0.1:443",
	}}}); err != nil {
		f.Fatal(err)
	}
	if items := f.must(200, "GET", "/admin/v1/webhooks/whs_y/deliveries?outcome=refused", nil)["items"].([]any); len(items) != 1 {
		f.Errorf("refused are %v", items)
	}
	retry := "/admin/v1/deliveries/" + id + "/retry"
	v := f.must(200, "POST", retry, nil)
	next, err := time.Parse(time.RFC3339, v["next_at"].(string))
	if err != nil || next.After(time.Now()) || v["attempts"] != 1.0 {
		f.Errorf("brought forward: %v", v)
	}
	if again := f.must(200, "POST", retry, nil); again["next_at"] != v["next_at"] {
		f.Errorf("asked twice: %v", again)
	}
	f.must(200, "PATCH", at, object{"activation_mode": "setup"})
	f.mustRefuse(409, "conflict", "POST", retry, nil)
	f.mustRefuse(409, "conflict", "POST", "/admin/v1/webhooks/whs_y/recover", object{"since": "2026-01-01T00:00:00Z"})
}

// TestTryUnderWayOfRevokedWebhook: the log shows a try that was under way when its
// subscription was revoked.
func TestTryUnderWayOfRevokedWebhook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	f.subscribe("whs_u", account, "key_1")
	f.must(201, "POST", accounts+"/"+account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	log := "/admin/v1/webhooks/whs_u/deliveries"
	id := f.must(200, "GET", log, nil)["items"].([]any)[0].(object)["id"].(string)
	f.must(200, "POST", "/admin/v1/webhooks/whs_u/revoke", nil)
	began := time.Now()
	if err := f.config.DB.RecordOutcomes(t.Context(), []deliveries.Outcome{{State: store.StateDelivered, SubscriptionID: "whs_u", Attempt: store.Attempt{
		ID: store.NewAttemptID(id, began), DeliveryID: id, Number: 1, StartedAt: began, Status: 204,
	}}}); err != nil {
		t.Fatal(err)
	}
	for by, v := range map[string]object{
		"the list": f.must(200, "GET", log, nil)["items"].([]any)[0].(object),
		"its id":   f.must(200, "GET", "/admin/v1/deliveries/"+id, nil),
	} {
		if v["state"] != "cancelled" || v["attempts"] != 1.0 || len(v["tries"].([]any)) != 1 {
			t.Errorf("by %s it is %v, want cancelled after one try", by, v)
		}
	}
}

// An endpoint that fails for five days is marked, and nothing else happens to
// it.
func TestFailingWebhook(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	f := newFixture(t, databaseAt(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	account := f.account("live")
	f.subscribe("whs_f", account, "key_1")
	f.must(201, "POST", accounts+"/"+account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	id := f.must(200, "GET", "/admin/v1/webhooks/whs_f/deliveries", nil)["items"].([]any)[0].(object)["id"].(string)
	finish := func(number int, state store.State) {
		t.Helper()
		if err := f.config.DB.RecordOutcomes(f.Context(), []deliveries.Outcome{{State: state, SubscriptionID: "whs_f", NextAt: time.Now(), Attempt: store.Attempt{
			ID: "dlv_f" + strconv.Itoa(number), DeliveryID: id, Number: number, StartedAt: time.Now(), Status: 500,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if v := f.must(200, "GET", "/admin/v1/webhooks/whs_f", nil); v["state"] != want || v["revoked_at"] != nil {
			t.Errorf("it is %v, want %s", v, want)
		}
	}
	is("active")
	finish(1, store.StatePending)
	is("failing")
	ahead.Store(int64(5*24*time.Hour - time.Hour))
	is("failing")
	ahead.Store(int64(5 * 24 * time.Hour))
	is("failing_long")
	finish(2, store.StateDelivered)
	is("active")
}
