package origin

import (
	"encoding/json"
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
	if v := f.must(200, "DELETE", "/admin/v1/leads/lead_forget", nil); v["account_id"] != id {
		f.Errorf("deleted %v", v)
	}
	f.mustRefuse(404, "not_found", "DELETE", "/admin/v1/leads/lead_forget", nil)
	if items := f.must(200, "GET", accounts+"/"+id+"/leads", nil)["items"].([]any); len(items) != 1 {
		f.Errorf("left are %v", items)
	}
	_, operator := f.token(store.RoleOperator)
	if status, _, _ := f.send("DELETE", accounts+"/"+id, nil, "Bearer "+operator); status != 403 {
		f.Errorf("an operator deletes an account: %d", status)
	}
	if v := f.must(200, "DELETE", accounts+"/"+id, nil); v["id"] != id || v["erased"].(object)["leads"] != 1.0 || v["erased"].(object)["keys"] != 1.0 {
		f.Errorf("erased %v", v)
	}
	f.mustRefuse(404, "not_found", "DELETE", accounts+"/"+id, nil)
	f.mustRefuse(404, "not_found", "GET", accounts+"/"+id, nil)
}
