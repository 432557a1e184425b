package origin

import (
	"encoding/json"
	"slices"
	"strings"
)

func adminIngest(w *world) {
	account := w.account("setup")
	at := accounts + "/" + account
	told := func(what string, v object, want bool) {
		w.Helper()
		id, _ := v["event_id"].(string)
		if strings.HasPrefix(id, "evt_") != want {
			w.Errorf("%s: event_id %q, want an event: %v", what, id, want)
		}
		if want {
			if e, err := w.config.DB.Event(w.Context(), id); err != nil || e.AccountID != account {
				w.Errorf("%s: the event is %v, %v", what, e, err)
			}
		}
	}

	run := w.must(201, "POST", at+"/coaching-runs", object{"insights": []object{
		{"headline": "old", "detail": "", "created_at": "2026-01-01T00:00:00.1234567Z"}, {"headline": "new", "detail": "two\nlines"},
	}})
	told("a run", run, true)
	if first := run["insights"].([]any)[0].(object); first["created_at"] != "2026-01-01T00:00:00.123456Z" || first["account_id"] != account {
		w.Errorf("first insight %v", first)
	}
	empty := w.must(200, "POST", at+"/coaching-runs", object{"insights": []object{}})
	told("an empty run", empty, false)
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
		w.refused(400, c.reason, "POST", at+"/coaching-runs", object{"insights": []any{object{"headline": "fine", "detail": "d"}, c.insight}})
	}
	w.refused(400, "insights_required", "POST", at+"/coaching-runs", object{})
	w.refused(400, "insights_too_long", "POST", at+"/coaching-runs", object{"insights": slices.Repeat([]object{{"headline": "h", "detail": "d"}}, 101)})

	firing := object{"sentinel_name": "stale_lead", "trigger_data": object{"Days": 3, "deep": object{"Name": nil}}, "action_taken": "reminded"}
	first := w.must(201, "POST", at+"/sentinel-firings", with(firing, "triggered_at", "2026-01-01T00:00:00Z"))
	told("a firing", first, true)
	if data, _ := json.Marshal(first["trigger_data"]); string(data) != `{"Days":3,"deep":{"Name":null}}` {
		w.Errorf("trigger data %s", data)
	}
	second := w.must(201, "POST", at+"/sentinel-firings", with(firing, "triggered_at", "2026-01-01T00:00:00Z"))
	told("a firing", second, true)
	if second["triggered_at"] != "2026-01-01T00:00:00.000001Z" {
		w.Errorf("a second one at the same time is at %v", second["triggered_at"])
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
		{"trigger_data", object{"a": strings.Repeat("x", 16<<10)}, "trigger_data_too_long"},
		{"trigger_data", json.RawMessage(`{"a":1,"a":2}`), "duplicate_field"},
		{"triggered_at", 5, "invalid_field_type"},
		{"triggered_at", "x", "triggered_at_invalid"},
	} {
		w.refused(400, c.reason, "POST", at+"/sentinel-firings", with(firing, c.field, c.v))
	}

	told("a first stage", w.must(201, "PUT", at+"/deals/d%2F1", object{"stage": "lead"}), false)
	told("the same stage", w.must(200, "PUT", at+"/deals/d%2F1", object{"stage": "lead"}), false)
	moved := w.must(201, "PUT", at+"/deals/d%2F1", object{"stage": "offer", "changed_at": "2026-02-01T10:00:00Z"})
	told("another stage", moved, true)
	if moved["id"] != "d/1" || moved["stage"] != "offer" || moved["changed_at"] != "2026-02-01T10:00:00.000000Z" {
		w.Errorf("moved %v", moved)
	}
	w.refused(400, "stage_required", "PUT", at+"/deals/d1", object{})
	w.refused(400, "stage_too_long", "PUT", at+"/deals/d1", object{"stage": strings.Repeat("s", 101)})
	w.refused(400, "changed_at_invalid", "PUT", at+"/deals/d1", object{"stage": "s", "changed_at": ""})
	w.refused(400, "deal_id_too_long", "PUT", at+"/deals/"+strings.Repeat("d", 129), object{"stage": "s"})
	w.refused(400, "deal_id_invalid", "PUT", at+"/deals/a%00b", object{"stage": "s"})

	told("a first pace", w.must(201, "PUT", at+"/goals/g1", object{"pace": "behind"}), false)
	told("the same pace", w.must(200, "PUT", at+"/goals/g1", object{"pace": "behind"}), false)
	told("another pace", w.must(201, "PUT", at+"/goals/g1", object{"pace": "ahead"}), true)
	w.refused(400, "pace_required", "PUT", at+"/goals/g1", object{})
	w.refused(400, "pace_invalid", "PUT", at+"/goals/g1", object{"pace": "fast"})

	for _, channel := range []string{"phone", "email", "sms"} {
		told(channel, w.must(201, "POST", at+"/contacts", object{"client_id": "c1", "channel": channel}), true)
	}
	w.refused(400, "client_id_required", "POST", at+"/contacts", object{"channel": "phone"})
	w.refused(400, "channel_required", "POST", at+"/contacts", object{"client_id": "c1"})
	w.refused(400, "channel_invalid", "POST", at+"/contacts", object{"client_id": "c1", "channel": "fax"})
	w.refused(400, "occurred_at_invalid", "POST", at+"/contacts", object{"client_id": "c1", "channel": "sms", "occurred_at": "10000-01-01T00:00:00Z"})

	w.refused(404, "not_found", "POST", none+"/coaching-runs", object{"insights": []object{{"headline": "h", "detail": "d"}}})
	w.refused(404, "not_found", "POST", none+"/sentinel-firings", firing)
	w.refused(404, "not_found", "PUT", none+"/deals/d", object{"stage": "s"})
	w.refused(404, "not_found", "PUT", none+"/goals/g", object{"pace": "ahead"})
	w.refused(404, "not_found", "POST", none+"/contacts", object{"client_id": "c1", "channel": "sms"})
	w.refused(404, "not_found", "GET", none+"/leads", nil)
	w.refused(404, "not_found", "GET", none+"/webhooks", nil)
	w.refused(400, "limit_not_integer", "GET", at+"/leads?limit=x", nil)
	w.refused(400, "limit_not_integer", "GET", at+"/webhooks?limit=x", nil)
	w.must(200, "GET", at+"/leads", nil)
}
