package origin

import (
	"encoding/json"
	"slices"
	"strings"
)

func adminIngest(f *fixture) {
	account := f.account("setup")
	at := accounts + "/" + account
	emits := func(what string, v object, want bool) {
		f.Helper()
		id, _ := v["event_id"].(string)
		if strings.HasPrefix(id, "evt_") != want {
			f.Errorf("%s: event_id %q, want an event: %v", what, id, want)
		}
		if want {
			if e, err := f.config.DB.Event(f.Context(), id); err != nil || e.AccountID != account {
				f.Errorf("%s: the event is %v, %v", what, e, err)
			}
		}
	}

	run := f.must(201, "POST", at+"/coaching-runs", object{"insights": []object{
		{"headline": "old", "detail": "", "created_at": "2026-01-01T00:00:00.1234567Z"}, {"headline": "new", "detail": "two\nlines"},
	}})
	emits("a run", run, true)
	if first := run["insights"].([]any)[0].(object); first["created_at"] != "2026-01-01T00:00:00.123456Z" || first["account_id"] != account {
		f.Errorf("first insight %v", first)
	}
	empty := f.must(200, "POST", at+"/coaching-runs", object{"insights": []object{}})
	emits("an empty run", empty, false)
	for _, c := range []struct {
		insight any
		reason  string
	}{
		{object{"detail": "d"}, "headline_required"},
		{object{"headline": "h"}, "detail_required"},
		{object{"headline": strings.Repeat("h", 501), "detail": "d"}, "headline_too_long"},
		{object{"headline": "h", "detail": strings.Repeat("d", 10_001)}, "detail_too_long"},
		{object{"headline": "h", "detail": "d", "created_at": "2026-01-01"}, "created_at_invalid"},
		{object{"headline": "h", "detail": "d", "source": "fallback"}, "unknown_field"},
		{"text", "invalid_field_type"},
		{nil, "headline_required"},
	} {
		f.mustRefuse(400, c.reason, "POST", at+"/coaching-runs", object{"insights": []any{object{"headline": "fine", "detail": "d"}, c.insight}})
	}
	f.mustRefuse(400, "insights_required", "POST", at+"/coaching-runs", object{})
	f.mustRefuse(400, "insights_too_long", "POST", at+"/coaching-runs", object{"insights": slices.Repeat([]object{{"headline": "h", "detail": "d"}}, 101)})

	firing := object{"sentinel_name": "stale_lead", "trigger_data": object{"Days": 3, "deep": object{"Name": nil}}, "action_taken": "reminded"}
	first := f.must(201, "POST", at+"/sentinel-firings", with(firing, "triggered_at", "2026-01-01T00:00:00Z"))
	emits("a firing", first, true)
	if data, _ := json.Marshal(first["trigger_data"]); string(data) != `{"Days":3,"deep":{"Name":null}}` {
		f.Errorf("trigger data %s", data)
	}
	second := f.must(201, "POST", at+"/sentinel-firings", with(firing, "triggered_at", "2026-01-01T00:00:00Z"))
	emits("a firing", second, true)
	if second["triggered_at"] != "2026-01-01T00:00:00.000001Z" {
		f.Errorf("a second one at the same time is at %v", second["triggered_at"])
	}
	for _, c := range []struct {
		field  string
		v      any
		reason string
	}{
		{"sentinel_name", nil, "sentinel_name_required"},
		{"sentinel_name", strings.Repeat("s", 101), "sentinel_name_too_long"},
		{"action_taken", nil, "action_taken_required"},
		{"action_taken", 3, "invalid_field_type"},
		{"trigger_data", nil, "trigger_data_required"},
		{"trigger_data", json.RawMessage("null"), "trigger_data_required"},
		{"trigger_data", []int{1}, "trigger_data_invalid"},
		{"trigger_data", "text", "trigger_data_invalid"},
		{"trigger_data", json.RawMessage(`{"a":"\ud83d"}`), "trigger_data_invalid"},
		{"trigger_data", json.RawMessage(`{"\u0000":1}`), "trigger_data_invalid"},
		{"trigger_data", json.RawMessage(`{"a":[1e400]}`), "trigger_data_invalid"},
		{"trigger_data", object{"a": strings.Repeat("x", 16<<10)}, "trigger_data_too_long"},
		{"trigger_data", json.RawMessage(`{"a":1,"a":2}`), "duplicate_field"},
		{"triggered_at", 5, "invalid_field_type"},
		{"triggered_at", "x", "triggered_at_invalid"},
	} {
		f.mustRefuse(400, c.reason, "POST", at+"/sentinel-firings", with(firing, c.field, c.v))
	}

	emits("a first stage", f.must(201, "PUT", at+"/deals/d%2F1", object{"stage": "lead"}), false)
	emits("the same stage", f.must(200, "PUT", at+"/deals/d%2F1", object{"stage": "lead"}), false)
	moved := f.must(201, "PUT", at+"/deals/d%2F1", object{"stage": "offer", "changed_at": "2026-02-01T10:00:00Z"})
	emits("another stage", moved, true)
	if moved["id"] != "d/1" || moved["stage"] != "offer" || moved["changed_at"] != "2026-02-01T10:00:00.000000Z" {
		f.Errorf("moved %v", moved)
	}
	longest := object{"stage": strings.Repeat("阶", 100)}
	emits("a long stage", f.must(201, "PUT", at+"/deals/d2", longest), false)
	emits("the same long stage", f.must(200, "PUT", at+"/deals/d2", longest), false)
	emits("a move from a long stage", f.must(201, "PUT", at+"/deals/d2", object{"stage": "offer"}), true)
	emits("a move to a long stage", f.must(201, "PUT", at+"/deals/d2", longest), true)
	f.mustRefuse(400, "stage_too_long", "PUT", at+"/deals/d2", object{"stage": strings.Repeat("阶", 101)})
	f.mustRefuse(400, "stage_required", "PUT", at+"/deals/d1", object{})
	f.mustRefuse(400, "stage_too_long", "PUT", at+"/deals/d1", object{"stage": strings.Repeat("s", 101)})
	f.mustRefuse(400, "changed_at_invalid", "PUT", at+"/deals/d1", object{"stage": "s", "changed_at": ""})
	f.mustRefuse(400, "deal_id_too_long", "PUT", at+"/deals/"+strings.Repeat("d", 129), object{"stage": "s"})
	f.mustRefuse(400, "deal_id_invalid", "PUT", at+"/deals/a%00b", object{"stage": "s"})

	emits("a first pace", f.must(201, "PUT", at+"/goals/g1", object{"pace": "behind"}), false)
	emits("the same pace", f.must(200, "PUT", at+"/goals/g1", object{"pace": "behind"}), false)
	emits("another pace", f.must(201, "PUT", at+"/goals/g1", object{"pace": "ahead"}), true)
	f.mustRefuse(400, "pace_required", "PUT", at+"/goals/g1", object{})
	f.mustRefuse(400, "pace_invalid", "PUT", at+"/goals/g1", object{"pace": "fast"})

	for _, channel := range []string{"phone", "email", "sms"} {
		emits(channel, f.must(201, "POST", at+"/contacts", object{"client_id": "c1", "channel": channel}), true)
	}
	f.mustRefuse(400, "client_id_required", "POST", at+"/contacts", object{"channel": "phone"})
	f.mustRefuse(400, "channel_required", "POST", at+"/contacts", object{"client_id": "c1"})
	f.mustRefuse(400, "channel_invalid", "POST", at+"/contacts", object{"client_id": "c1", "channel": "fax"})
	f.mustRefuse(400, "occurred_at_invalid", "POST", at+"/contacts", object{"client_id": "c1", "channel": "sms", "occurred_at": "10000-01-01T00:00:00Z"})

	f.mustRefuse(404, "not_found", "POST", none+"/coaching-runs", object{"insights": []object{{"headline": "h", "detail": "d"}}})
	f.mustRefuse(404, "not_found", "POST", none+"/sentinel-firings", firing)
	f.mustRefuse(404, "not_found", "PUT", none+"/deals/d", object{"stage": "s"})
	f.mustRefuse(404, "not_found", "PUT", none+"/goals/g", object{"pace": "ahead"})
	f.mustRefuse(404, "not_found", "POST", none+"/contacts", object{"client_id": "c1", "channel": "sms"})
	f.mustRefuse(404, "not_found", "GET", none+"/leads", nil)
	f.mustRefuse(404, "not_found", "GET", none+"/webhooks", nil)
	f.mustRefuse(400, "limit_not_integer", "GET", at+"/leads?limit=x", nil)
	f.mustRefuse(400, "limit_not_integer", "GET", at+"/webhooks?limit=x", nil)
	f.must(200, "GET", at+"/leads", nil)
}

// adminIngestOnce sends each request that adds a record twice with one key.
func adminIngestOnce(f *fixture) {
	at := accounts + "/" + f.account("live")
	for _, tt := range []struct {
		path        string
		body, other object
	}{
		{"/coaching-runs", object{"insights": []object{{"headline": "h", "detail": "d"}}}, object{"insights": []object{{"headline": "other", "detail": "d"}}}},
		{"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{"n": 1}, "action_taken": "a"},
			object{"sentinel_name": "s", "trigger_data": object{"n": 2}, "action_taken": "a"}},
		{"/contacts", object{"client_id": "c", "channel": "phone"}, object{"client_id": "c", "channel": "email"}},
	} {
		send := func(body object, key string) (int, string) {
			status, _, text := f.send("POST", at+tt.path, body, "Bearer "+f.Token(), "Idempotency-Key", key)
			return status, string(text)
		}
		status, first := send(tt.body, "feed-1")
		if again, answer := send(tt.body, "feed-1"); status != 201 || again != 201 || answer != first {
			f.Errorf("%s: %d %s, then %d %s", tt.path, status, first, again, answer)
		}
		if status, other := send(tt.body, "feed-2"); status != 201 || other == first {
			f.Errorf("%s with another key: %d %s", tt.path, status, other)
		}
		for _, key := range []string{"", "é", strings.Repeat("k", 256)} {
			if status, answer := send(tt.body, key); status != 400 || !strings.Contains(answer, "invalid_idempotency_key") {
				f.Errorf("%s with key %q: %d %s", tt.path, key, status, answer)
			}
		}
		if status, answer := send(tt.other, "feed-1"); status != 409 || !strings.Contains(answer, "idempotency_conflict") {
			f.Errorf("%s with other content: %d %s", tt.path, status, answer)
		}
	}
}
