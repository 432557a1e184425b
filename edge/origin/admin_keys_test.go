package origin

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"partneredge/wasm/apikey"
)

func adminKeys(f *fixture) {
	account := f.account("live")
	path := accounts + "/" + account + "/keys"
	good := object{"environment": "live", "scopes": []string{"read:agent", "read:agent", "write:leads"}}
	made := f.must(201, "POST", path, good)
	key, plaintext := made["key"].(object), made["plaintext"].(string)
	if !apikey.Valid(plaintext) || !strings.HasPrefix(plaintext, "svc_live_") {
		f.Errorf("the plaintext is no key of environment live")
	}
	if fmt.Sprint(key["scopes"]) != "[read:agent write:leads]" || key["rate_limit"] != 100.0 || key["state"] != "active" ||
		key["revoked_at"] != nil || key["account_id"] != account {
		f.Errorf("made %v", key)
	}
	expires, err := time.Parse(time.RFC3339, key["expires_at"].(string))
	if left := time.Until(expires); err != nil || left < 364*24*time.Hour || left > 366*24*time.Hour {
		f.Errorf("expires %v", key["expires_at"])
	}
	used := "/admin/v1/keys/" + key["id"].(string) + "/usage"
	if use := f.must(200, "GET", "/admin/v1/keys/"+key["id"].(string), nil)["usage"].(object); use["last_used_at"] != nil || use["requests"] != 0.0 || key["usage"] != nil {
		f.Errorf("a key that was not used: %v, when it was made %v", use, key["usage"])
	}
	if days := f.must(200, "GET", used+"?days=90", nil)["items"].([]any); len(days) != 0 {
		f.Errorf("a key that was not used: %v", days)
	}
	f.mustRefuse(400, "days_invalid", "GET", used+"?days=91", nil)
	f.must(404, "GET", "/admin/v1/keys/key_none/usage", nil)
	kept, _, err := f.config.DB.KeyByHash(f.Context(), sha256.Sum256([]byte(plaintext)))
	if err != nil || kept.ID != key["id"] {
		f.Errorf("kept as %v: %v", kept.ID, err)
	}
	full := f.must(201, "POST", path, object{
		"environment": "test", "scopes": []string{"read:coaching", "x:quotes"}, "rate_limit": 1_000_000, "label": "CI", "expires_at": "2020-01-01T00:00:00+02:00",
		"ip_allowlist": []string{"192.0.2.7", "10.1.2.3/8", "2001:db8::1/32", "::ffff:192.0.2.9", "192.0.2.7"},
	})["key"].(object)
	if fmt.Sprint(full["ip_allowlist"]) != "[192.0.2.7 10.0.0.0/8 2001:db8::/32 192.0.2.9]" || full["state"] != "expired" ||
		full["expires_at"] != "2019-12-31T22:00:00.000000Z" || full["label"] != "CI" ||
		fmt.Sprint(full["scopes"]) != "[read:coaching x:quotes]" {
		f.Errorf("made %v", full)
	}
	for _, c := range []struct {
		field  string
		v      any
		reason string
	}{
		{"environment", nil, "environment_required"},
		{"environment", "prod", "environment_invalid"},
		{"scopes", nil, "scopes_required"},
		{"scopes", []string{}, "scopes_required"},
		{"scopes", []string{"read:everything"}, "scopes_invalid"},
		{"scopes", []string{"x:"}, "scopes_invalid"},
		{"scopes", []string{"x:Quotes"}, "scopes_invalid"},
		{"scopes", "read:agent", "invalid_field_type"},
		{"rate_limit", 0, "rate_limit_invalid"},
		{"rate_limit", 1_000_001, "rate_limit_invalid"},
		{"rate_limit", 1.5, "invalid_field_type"},
		{"rate_limit", "100", "invalid_field_type"},
		{"ip_allowlist", []string{"10.0.0.0/33"}, "ip_allowlist_invalid"},
		{"ip_allowlist", []string{"fe80::1%lo"}, "ip_allowlist_invalid"},
		{"ip_allowlist", []string{"host.example"}, "ip_allowlist_invalid"},
		{"ip_allowlist", slices.Repeat([]string{"192.0.2.1"}, 101), "ip_allowlist_too_long"},
		{"expires_at", "tomorrow", "expires_at_invalid"},
		{"expires_at", "1969-01-01T00:00:00Z", "expires_at_invalid"},
		{"label", strings.Repeat("x", 201), "label_too_long"},
		{"hash", "00", "unknown_field"},
	} {
		f.mustRefuse(400, c.reason, "POST", path, with(good, c.field, c.v))
	}
	f.mustRefuse(404, "not_found", "POST", none+"/keys", good)
	f.mustRefuse(404, "not_found", "GET", none+"/keys", nil)
	f.mustRefuse(400, "cursor_invalid", "GET", path+"?cursor=nonsense", nil)

	id := key["id"].(string)
	rotated := f.must(201, "POST", "/admin/v1/keys/"+id+"/rotate", object{"grace_seconds": 60})
	previous, successor := rotated["previous"].(object), rotated["key"].(object)
	if previous["id"] != id || previous["state"] != "in_grace" || previous["successor_id"] != successor["id"] ||
		successor["state"] != "active" || fmt.Sprint(successor["scopes"]) != fmt.Sprint(key["scopes"]) || rotated["plaintext"] == plaintext {
		f.Errorf("rotated to %v, from %v", successor, previous)
	}
	f.mustRefuse(409, "conflict", "POST", "/admin/v1/keys/"+id+"/rotate", nil)
	next := successor["id"].(string)
	f.mustRefuse(400, "grace_seconds_invalid", "POST", "/admin/v1/keys/"+next+"/rotate", object{"grace_seconds": -1})
	f.mustRefuse(400, "invalid_field_type", "POST", "/admin/v1/keys/"+next+"/rotate", object{"grace_seconds": "60"})
	byDefault := f.must(201, "POST", "/admin/v1/keys/"+next+"/rotate", nil)["previous"].(object)
	grace, err := time.Parse(time.RFC3339, byDefault["grace_until"].(string))
	if left := time.Until(grace); err != nil || left < 6*24*time.Hour || left > 8*24*time.Hour {
		f.Errorf("by default grace ends %v", byDefault["grace_until"])
	}
	last := f.must(201, "POST", path, good)["key"].(object)["id"].(string)
	if v := f.must(201, "POST", "/admin/v1/keys/"+last+"/rotate", `{"grace_seconds":0}`)["previous"].(object); v["state"] != "revoked" {
		f.Errorf("without grace the old key is %v", v["state"])
	}
	f.mustRefuse(409, "conflict", "POST", "/admin/v1/keys/"+full["id"].(string)+"/rotate", nil)
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/keys/key_none/rotate", nil)

	revoked := f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", nil)
	if revoked["state"] != "revoked" || revoked["revoked_at"] == nil {
		f.Errorf("revoked %v", revoked)
	}
	if again := f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", object{}); again["revoked_at"] != revoked["revoked_at"] {
		f.Errorf("revoked again at %v", again["revoked_at"])
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/keys/key_none/revoke", nil)

	_, _, text := f.send("GET", path, nil, "Bearer "+f.Token())
	if strings.Contains(string(text), "svc_") || strings.Contains(string(text), "hash") || !strings.Contains(string(text), id) {
		f.Error("the list shows a plaintext or a hash, or lacks a key")
	}
}
