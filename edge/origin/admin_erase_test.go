package origin

import (
	"encoding/json"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// adminErase deletes a lead, then its account, which is the admins' alone.
func adminErase(f *fixture) {
	id := f.account("live")
	key, _ := f.key(id, "live")
	for _, lead := range []string{"lead_forget", "lead_other"} {
		l := store.Lead{ID: lead, AccountID: id, KeyID: key, Environment: store.Live, FirstName: "Ana", Email: "ana@example.com", ConsentStatus: "none", CreatedAt: time.Now()}
		body, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := f.config.DB.AddLeads(f.Context(), "node_x", []central.OfferedLead{{AcceptedLead: store.AcceptedLead{Lead: l}, Vouched: true, Body: body}}); err != nil {
			f.Fatal(err)
		}
	}
	if v := f.must(200, "GET", "/admin/v1/leads/lead_forget", nil); v["email"] != "ana@example.com" {
		f.Errorf("read %v", v)
	}
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/leads/lead_none", nil)
	if v := f.must(200, "DELETE", "/admin/v1/leads/lead_forget", nil); v["account_id"] != id {
		f.Errorf("deleted %v", v)
	}
	f.mustRefuse(404, "not_found", "DELETE", "/admin/v1/leads/lead_forget", nil)
	f.mustRefuse(409, "conflict", "POST", accounts+"/"+id+"/contacts", object{"client_id": "lead_forget", "channel": "sms"})
	if items := f.must(200, "GET", accounts+"/"+id+"/leads", nil)["items"].([]any); len(items) != 1 {
		f.Errorf("left are %v", items)
	}
	_, operator := f.token(store.RoleOperator)
	if status, _, _ := f.send("GET", accounts+"/"+id+"/export", nil, "Bearer "+operator); status != 403 {
		f.Errorf("an operator exports an account: %d", status)
	}
	f.mustRefuse(404, "not_found", "GET", none+"/export", nil)
	status, _, text := f.send("GET", accounts+"/"+id+"/export", nil, "Bearer "+f.Token())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if status != 200 || !strings.Contains(lines[0], `"kind":"account"`) || !strings.Contains(string(text), `"id":"lead_other"`) ||
		!strings.Contains(lines[len(lines)-1], `{"kind":"end","record":{"counts":{"account":1,`) {
		f.Errorf("exported %d %s", status, text)
	}
	if strings.Contains(string(text), "lead_forget") {
		f.Error("the export has a lead that was deleted")
	}
	if status, _, _ := f.send("DELETE", accounts+"/"+id, nil, "Bearer "+operator); status != 403 {
		f.Errorf("an operator deletes an account: %d", status)
	}
	if v := f.must(200, "DELETE", accounts+"/"+id, nil); v["id"] != id || v["erased"].(object)["leads"] != 1.0 || v["erased"].(object)["keys"] != 1.0 {
		f.Errorf("erased %v", v)
	}
	if items := f.must(200, "GET", "/admin/v1/tombstones", nil)["items"].([]any); len(items) != 2 || items[0].(object)["id"] != id || items[1].(object)["id"] != "lead_forget" {
		f.Errorf("tombstones %v", items)
	}
	const tombstones = "/admin/v1/tombstones"
	if v := f.must(201, "POST", tombstones, object{"id": "lead_elsewhere", "deleted_at": "2026-01-02T03:04:05Z"}); v["deleted_at"] != "2026-01-02T03:04:05.000000Z" {
		f.Errorf("buried %v", v)
	}
	long := strings.Repeat("x", 200) // as leads' ids may be
	for _, lead := range []string{"crm-42", long, " "} {
		if v := f.must(201, "POST", tombstones, object{"id": lead, "deleted_at": "2026-01-02T03:04:05Z"}); v["id"] != lead {
			f.Errorf("buried %v", v)
		}
	}
	for _, refused := range []object{{"id": "key_x"}, {"id": long + "x"}, {"id": ""}, {}} {
		f.mustRefuse(400, "invalid_tombstone", "POST", tombstones, refused)
	}
	f.mustRefuse(400, "invalid_parameter", "GET", tombstones+"?limit=x", nil)
	if status, _, _ := f.send("POST", tombstones, object{"id": "lead_x"}, "Bearer "+operator); status != 403 {
		f.Errorf("an operator buries: %d", status)
	}
	f.mustRefuse(404, "not_found", "DELETE", accounts+"/"+id, nil)
	f.mustRefuse(404, "not_found", "GET", accounts+"/"+id, nil)
}
