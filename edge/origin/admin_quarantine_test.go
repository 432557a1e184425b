package origin

import (
	"strings"
	"testing"

	"partneredge/store"
	"partneredge/store/central"
)

// quarantine has a node's lead refused, and returns the id of the entry.
func (f *fixture) quarantine(body string) string {
	f.Helper()
	done, err := f.config.DB.AddLeads(f.Context(), "node_x", []central.OfferedLead{central.ReadLead("", []byte(body))})
	if err != nil || len(done.Quarantined) != 1 {
		f.Fatalf("%v, %v", done, err)
	}
	return f.must(200, "GET", "/admin/v1/quarantine?limit=1", nil)["items"].([]any)[0].(object)["id"].(string)
}

func adminQuarantine(f *fixture) {
	const path = "/admin/v1/quarantine"
	account := f.account("live")
	f.mustRefuse(400, "since_invalid", "GET", path+"?since=x", nil)
	id := f.quarantine(`{"id":"lead_1900","account_id":"` + account + `","key_id":"key_x","environment":"live","first_name":"Ana","email":"ana@example.com","phone":7,"consent_status":"none","captured_at":"1900-01-01T00:00:00Z","created_at":"2026-01-02T03:04:05Z"}`)
	item := f.must(200, "GET", path, nil)["items"].([]any)[0].(object)
	if item["lead_id"] != "lead_1900" || item["account_id"] != account || item["node_id"] != "node_x" || item["state"] != "waiting" ||
		!strings.Contains(item["reason"].(string), "phone") || item["body"] != nil || item["lead"] != nil || !stampForm.MatchString(item["received_at"].(string)) {
		f.Errorf("listed %v", item)
	}
	one := f.must(200, "GET", path+"/"+id, nil)
	if lead := one["lead"].(object); !strings.Contains(one["body"].(string), `"phone":7`) || lead["first_name"] != "Ana" || lead["captured_at"] != "1900-01-01T00:00:00Z" || lead["phone"] != "" {
		f.Errorf("read %v", one)
	}
	f.mustRefuse(404, "not_found", "GET", path+"/qtn_none", nil)
	f.mustRefuse(404, "not_found", "POST", path+"/qtn_none/release", nil)
	f.mustRefuse(404, "not_found", "DELETE", path+"/qtn_none", nil)
	f.mustRefuse(400, "cursor_invalid", "GET", path+"?cursor=x", nil)

	release := path + "/" + id + "/release"
	f.mustRefuse(400, "refused", "POST", release, nil)
	f.mustRefuse(400, "refused", "POST", release, object{"captured_at": "", "consent_status": "maybe", "first_name": "a\x00"})
	f.mustRefuse(400, "captured_at_invalid", "POST", release, object{"captured_at": "yesterday"})
	f.mustRefuse(400, "created_at_invalid", "POST", release, object{"captured_at": "", "created_at": "1900-01-01T00:00:00Z"})
	f.mustRefuse(400, "invalid_value", "POST", release, object{"captured_at": "", "account_id": "acc_none"})
	if _, v := f.call("POST", release, object{"environment": "test"}); v["detail"] != "leads of test keys are not kept" {
		f.Errorf("refused with %v", v)
	}
	if done := f.must(200, "POST", release, object{"captured_at": "", "phone": "+1 555 010 0000"}); done["state"] != "released" || done["body"] != nil || done["settled_at"] == nil {
		f.Errorf("released %v", done)
	}
	leads := f.must(200, "GET", accounts+"/"+account+"/leads", nil)["items"].([]any)
	if len(leads) != 1 {
		f.Fatalf("leads %v", leads)
	}
	if l := leads[0].(object); l["id"] != "lead_1900" || l["phone"] != "+1 555 010 0000" || l["captured_at"] != nil || l["created_at"] != "2026-01-02T03:04:05.000000Z" || l["outreach_allowed"] != false {
		f.Errorf("kept %v", l)
	}
	f.mustRefuse(409, "conflict", "POST", release, nil)
	f.mustRefuse(409, "conflict", "DELETE", path+"/"+id, nil)

	garbage := f.quarantine("\xff not JSON")
	if one := f.must(200, "GET", path+"/"+garbage, nil); one["body"] != " not JSON" || one["lead_id"] != "" {
		f.Errorf("read %v", one)
	}
	f.mustRefuse(409, "conflict", "POST", path+"/"+f.quarantine(`{"id":"lead_1900","account_id":"acc_none","environment":"live","consent_status":"none"}`)+"/release", object{"account_id": f.account("live")})
	if done := f.must(200, "DELETE", path+"/"+garbage, nil); done["state"] != "discarded" {
		f.Errorf("discarded %v", done)
	}
	for id, action := range map[string]string{id: "lead.release", garbage: "lead.discard"} {
		entries := f.must(200, "GET", "/admin/v1/audit?target="+id, nil)["items"].([]any)
		if len(entries) != 1 || entries[0].(object)["action"] != action {
			f.Errorf("audit of %s: %v", id, entries)
		}
	}
	if waiting := f.must(200, "GET", path, nil)["items"].([]any); len(waiting) != 1 {
		f.Errorf("still %v", waiting)
	}
}

// TestMendedLeadsAreJudgedAsReceivedOnes: what an operator releases passes the same
// validation, in each field that can be mended.
func TestMendedLeadsAreJudgedAsReceivedOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	id := f.quarantine(`{"id":"lead_all"}`)
	mended := object{
		"id": "lead_all", "account_id": account, "key_id": "key_y", "environment": "live", "first_name": "Bo", "last_name": "Li", "email": "bo@example.com",
		"phone": "+1 555 010 0001", "consent_status": "express_written", "consent_text": "Yes.", "captured_at": "2026-01-02T03:04:05Z", "outreach_allowed": true, "created_at": "2026-01-03T03:04:05Z",
	}
	for field, odd := range map[string]string{"id": "", "account_id": "", "consent_status": "", "environment": string(store.Test), "last_name": strings.Repeat("x", 1<<20), "consent_text": "a\x00"} {
		if status, v := f.call("POST", "/admin/v1/quarantine/"+id+"/release", with(mended, field, odd)); status/100 != 4 {
			t.Errorf("%s %.20q: %d %v", field, odd, status, v)
		}
	}
	f.must(200, "POST", "/admin/v1/quarantine/"+id+"/release", mended)
	lead := f.must(200, "GET", accounts+"/"+account+"/leads", nil)["items"].([]any)[0].(object)
	for field, want := range mended {
		if got, text := lead[field], ""; got != want {
			if text, _ = got.(string); !strings.HasSuffix(field, "_at") || strings.Replace(text, ".000000Z", "Z", 1) != want {
				t.Errorf("%s is %v, want %v", field, got, want)
			}
		}
	}
}
