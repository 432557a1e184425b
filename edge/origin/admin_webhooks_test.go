package origin

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

func adminDeliveries(w *world) {
	account := w.account("live")
	at := accounts + "/" + account
	keyID, _ := w.key(account, "live")
	node := w.enrol("deliveries")
	description := "hook"
	r := ask[wire.SubscribeReply](node, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, Subscription: store.Subscription{
		ID: "whs_x", AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Description: &description, Secret: strings.Repeat("a1", 32), CreatedAt: time.Now().UTC(),
	}})
	if r.Failure != "" {
		w.Fatal(r)
	}
	w.must(200, "GET", at+"/webhooks", nil)
	event := w.must(201, "POST", at+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string)

	log := "/admin/v1/webhooks/whs_x/deliveries"
	item := w.must(200, "GET", log, nil)["items"].([]any)[0].(object)
	if item["event_id"] != event || item["state"] != "pending" || item["attempts"] != 0.0 || len(item["tries"].([]any)) != 0 {
		w.Errorf("the log shows %v", item)
	}
	if items := w.must(200, "GET", log+"?state=dead", nil)["items"].([]any); len(items) != 0 {
		w.Errorf("dead are %v", items)
	}
	if items := w.must(200, "GET", log+"?state=pending&event_id="+event, nil)["items"].([]any); len(items) != 1 {
		w.Errorf("pending of the event are %v", items)
	}
	w.refused(400, "state_invalid", "GET", log+"?state=lost", nil)
	w.refused(404, "not_found", "GET", "/admin/v1/webhooks/whs_none/deliveries", nil)

	retry := "/admin/v1/deliveries/" + item["id"].(string) + "/retry"
	if v := w.must(200, "POST", retry, nil); v["state"] != "pending" || v["id"] != item["id"] {
		w.Errorf("retried %v", v)
	}
	w.refused(404, "not_found", "POST", "/admin/v1/deliveries/dlv_none/retry", nil)
	w.try(item["id"].(string))
	tried := w.must(200, "GET", log+"?state=dead", nil)["items"].([]any)[0].(object)
	tries := tried["tries"].([]any)
	if tried["attempts"] != 2.0 || len(tries) != 2 {
		w.Fatalf("after two tries %v", tried)
	}
	if a, b := tries[0].(object), tries[1].(object); a["status"] != nil || a["error"] != "connection refused" || b["status"] != 503.0 ||
		b["latency_ms"] != 1.5 || b["response_excerpt"] != "busy" || b["request_headers"].(object)["x-svc-event"] != "sentinel.fired" {
		w.Errorf("the tries are %v", tries)
	}
	w.outcomes(event, item["id"].(string))
	recover := "/admin/v1/webhooks/whs_x/recover"
	if v := w.must(200, "POST", recover, object{"since": "2026-01-01T00:00:00Z"}); v["queued"] != 1.0 {
		w.Errorf("recovered %v", v)
	}
	w.refused(400, "since_required", "POST", recover, object{})
	w.refused(400, "since_invalid", "POST", recover, object{"since": "yesterday"})
	w.refused(404, "not_found", "POST", "/admin/v1/webhooks/whs_none/recover", object{"since": "2026-01-01T00:00:00Z"})
	w.throttled(retry, nil)
	w.throttled(recover, object{"since": "2026-01-01T00:00:00Z"})
	w.rotations("whs_x", account, keyID)
	w.retriesAgain(account, keyID)
}

// try a delivery twice, to no avail.
func (w *world) try(delivery string) {
	w.Helper()
	at := time.Now()
	for _, o := range []central.Outcome{
		{State: store.StatePending, NextAt: at, Attempt: store.Attempt{
			ID: "dlv_1", DeliveryID: delivery, Number: 1, StartedAt: at, Error: "connection refused",
		}},
		{State: store.StateDead, Attempt: store.Attempt{
			ID: "dlv_2", DeliveryID: delivery, Number: 2, StartedAt: at, Latency: 1500 * time.Microsecond, Status: 503,
			Headers: map[string]string{"x-svc-event": "sentinel.fired"}, Excerpt: "busy",
		}},
	} {
		if err := w.config.DB.FinishDeliveries(w.Context(), []central.Outcome{o}); err != nil {
			w.Fatal(err)
		}
	}
}

// outcomes of an event whose only delivery is dead, by every way to ask.
func (w *world) outcomes(event, delivery string) {
	w.Helper()
	if v := w.must(200, "GET", "/admin/v1/deliveries/"+delivery, nil); v["state"] != "dead" || len(v["tries"].([]any)) != 2 {
		w.Errorf("the delivery is %v", v)
	}
	w.refused(404, "not_found", "GET", "/admin/v1/deliveries/dlv_none", nil)
	for _, log := range []string{"/admin/v1/events/" + event + "/deliveries", "/admin/v1/webhooks/whs_x/deliveries"} {
		for query, want := range map[string]int{
			"": 1, "?outcome=failed": 1, "?outcome=failed&state=dead": 1, "?state=dead": 1, "?outcome=pending": 0, "?outcome=delivered": 0,
			"?outcome=cancelled": 0, "?outcome=refused": 0,
		} {
			if items := w.must(200, "GET", log+query, nil)["items"].([]any); len(items) != want {
				w.Errorf("%s%s lists %d, want %d", log, query, len(items), want)
			}
		}
		w.refused(400, "outcome_invalid", "GET", log+"?outcome=lost", nil)
		w.refused(400, "outcome_invalid", "GET", log+"?outcome=failed&state=pending", nil)
		w.refused(400, "cursor_invalid", "GET", log+"?cursor=nonsense", nil)
	}
	w.refused(404, "not_found", "GET", "/admin/v1/events/evt_none/deliveries", nil)
}

// throttled calls until the answer is 429.
func (w *world) throttled(path string, body any) {
	w.Helper()
	for range 500 {
		status, header, text := w.send("POST", path, body, "Bearer "+w.Token())
		if status == 429 {
			if n, err := strconv.Atoi(header.Get("Retry-After")); err != nil || n < 1 || !strings.Contains(string(text), "rate_limited") {
				w.Errorf("429 with Retry-After %q: %s", header.Get("Retry-After"), text)
			}
			return
		}
	}
	w.Errorf("%s is taken without end", path)
}

// rotations of a subscription's secret: it signs with the one before as well,
// and shows the new one once.
func (w *world) rotations(id, account, keyID string) {
	w.Helper()
	rotate := "/admin/v1/webhooks/" + id + "/rotate-secret"
	before := w.secrets(id)
	v := w.must(201, "POST", rotate, nil)
	secret := v["secret"].(string)
	if shown := v["webhook"].(object); len(secret) != 64 || shown["id"] != id || !stampForm.MatchString(v["overlap_until"].(string)) {
		w.Errorf("rotated %v", v)
	}
	if got := w.secrets(id); !slices.Equal(got, []string{secret, before[0]}) {
		w.Errorf("in force are %d secrets", len(got))
	}
	second := w.must(201, "POST", rotate, object{"overlap_seconds": 0})["secret"].(string)
	if got := w.secrets(id); !slices.Equal(got, []string{second}) {
		w.Errorf("without an overlap %d secrets are in force", len(got))
	}
	w.refused(400, "overlap_seconds_invalid", "POST", rotate, object{"overlap_seconds": -1})
	w.refused(400, "overlap_seconds_invalid", "POST", rotate, object{"overlap_seconds": 31 * 24 * 3600})
	w.refused(404, "not_found", "POST", "/admin/v1/webhooks/whs_none/rotate-secret", nil)
	_, _, text := w.send("GET", "/admin/v1/audit?target="+id, nil, "Bearer "+w.Token())
	if n := strings.Count(string(text), "webhook.rotate_secret"); n != 2 {
		w.Errorf("%d rotations in the audit log", n)
	}
	_, _, shown := w.send("GET", "/admin/v1/webhooks/"+id, nil, "Bearer "+w.Token())
	for _, s := range []string{secret, second, before[0]} {
		if strings.Contains(string(text)+string(shown)+w.logs.String(), s) {
			w.Error("a secret is shown again")
		}
	}
	if _, err := w.config.DB.RevokeSubscription(w.Context(), account, id); err != nil {
		w.Fatal(err)
	}
	w.refused(409, "conflict", "POST", rotate, nil)
	if v := w.must(200, "GET", "/admin/v1/webhooks/"+id, nil); v["state"] != "revoked" {
		w.Errorf("revoked, it is %v", v)
	}
	w.refused(404, "not_found", "GET", "/admin/v1/webhooks/whs_none", nil)
}

func (w *world) secrets(id string) []string {
	w.Helper()
	standings, err := w.config.DB.Standings(w.Context(), []string{id})
	if err != nil {
		w.Fatal(err)
	}
	return standings[id].Secrets
}

// subscribe makes a live subscription to firings.
func (w *world) subscribe(id, account, keyID string) {
	w.Helper()
	if err := w.config.DB.AddSubscription(w.Context(), store.Subscription{
		ID: id, AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("b2", 32), CreatedAt: time.Now().UTC(),
	}); err != nil {
		w.Fatal(err)
	}
}

// retriesAgain: what waits for its next try is brought forward, and nothing is
// queued for an account that is not live.
func (w *world) retriesAgain(account, keyID string) {
	w.Helper()
	w.subscribe("whs_y", account, keyID)
	at := accounts + "/" + account
	w.must(201, "POST", at+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	id := w.must(200, "GET", "/admin/v1/webhooks/whs_y/deliveries", nil)["items"].([]any)[0].(object)["id"].(string)
	began := time.Now()
	if err := w.config.DB.FinishDeliveries(w.Context(), []central.Outcome{{State: store.StatePending, NextAt: began.Add(time.Hour), Attempt: store.Attempt{
		ID: "dlv_3", DeliveryID: id, Number: 1, StartedAt: began, Error: "refused by guard: host_not_public: 10.0.0.1:443",
	}}}); err != nil {
		w.Fatal(err)
	}
	if items := w.must(200, "GET", "/admin/v1/webhooks/whs_y/deliveries?outcome=refused", nil)["items"].([]any); len(items) != 1 {
		w.Errorf("refused are %v", items)
	}
	retry := "/admin/v1/deliveries/" + id + "/retry"
	v := w.must(200, "POST", retry, nil)
	next, err := time.Parse(time.RFC3339, v["next_at"].(string))
	if err != nil || next.After(time.Now()) || v["attempts"] != 1.0 {
		w.Errorf("brought forward: %v", v)
	}
	if again := w.must(200, "POST", retry, nil); again["next_at"] != v["next_at"] {
		w.Errorf("asked twice: %v", again)
	}
	w.must(200, "PATCH", at, object{"activation_mode": "setup"})
	w.refused(409, "conflict", "POST", retry, nil)
	w.refused(409, "conflict", "POST", "/admin/v1/webhooks/whs_y/recover", object{"since": "2026-01-01T00:00:00Z"})
}

// An endpoint that fails for five days is marked, and nothing else happens to
// it.
func TestFailingWebhook(t *testing.T) {
	var ahead atomic.Int64
	w := begin(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	account := w.account("live")
	w.subscribe("whs_f", account, "key_1")
	w.must(201, "POST", accounts+"/"+account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	id := w.must(200, "GET", "/admin/v1/webhooks/whs_f/deliveries", nil)["items"].([]any)[0].(object)["id"].(string)
	finish := func(number int, state store.State) {
		t.Helper()
		if err := w.config.DB.FinishDeliveries(w.Context(), []central.Outcome{{State: state, SubscriptionID: "whs_f", NextAt: time.Now(), Attempt: store.Attempt{
			ID: "dlv_f" + strconv.Itoa(number), DeliveryID: id, Number: number, StartedAt: time.Now(), Status: 500,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if v := w.must(200, "GET", "/admin/v1/webhooks/whs_f", nil); v["state"] != want || v["revoked_at"] != nil {
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
