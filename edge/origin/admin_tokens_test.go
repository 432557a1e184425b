package origin

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
)

// token makes a token of a role and returns its id and plaintext.
func (f *fixture) token(role store.Role) (id, plaintext string) {
	f.Helper()
	v := f.must(201, "POST", "/admin/v1/tokens", object{"name": "Ana " + string(role), "role": role})
	return v["token"].(object)["id"].(string), v["plaintext"].(string)
}

func adminTokens(f *fixture) {
	for _, c := range []struct {
		body   object
		reason string
	}{
		{object{"role": "admin"}, "name_required"}, {object{"name": "x"}, "role_required"},
		{object{"name": "x", "role": "root"}, "role_invalid"}, {object{"name": strings.Repeat("n", 201), "role": "admin"}, "name_too_long"},
	} {
		f.mustRefuse(400, c.reason, "POST", "/admin/v1/tokens", c.body)
	}
	id, plaintext := f.token(store.RoleOperator)
	status, _, text := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+plaintext)
	if status != 200 || !strings.Contains(string(text), id) || !strings.Contains(string(text), `"operator"`) {
		f.Errorf("whoami answered %d %s", status, text)
	}
	if v := f.must(200, "GET", "/admin/v1/whoami", nil); v["id"] != "file" || v["role"] != "admin" {
		f.Errorf("whoami of the file's token: %v", v)
	}
	if _, _, text := f.send("GET", "/admin/v1/tokens", nil, "Bearer "+f.Token()); !strings.Contains(string(text), id) || strings.Contains(string(text), plaintext) {
		f.Error("the list lacks the token, or shows it")
	}
	f.mustRefuse(400, "limit_not_integer", "GET", "/admin/v1/tokens?limit=x", nil)
	for range 2 {
		if v := f.must(200, "POST", "/admin/v1/tokens/"+id+"/revoke", nil); v["revoked_at"] == nil {
			f.Errorf("revoked %v", v)
		}
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/tokens/tok_none/revoke", nil)
	if status, _, text := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+plaintext); status != 401 || !strings.Contains(string(text), "token_revoked") {
		f.Errorf("a revoked token: %d %s", status, text)
	}
	f.mustRefuse(400, "expires_at_past", "POST", "/admin/v1/tokens", object{"name": "x", "role": "viewer", "expires_at": "2026-01-01T00:00:00Z"})
	f.mustRefuse(400, "expires_at_invalid", "POST", "/admin/v1/tokens", object{"name": "x", "role": "viewer", "expires_at": "soon"})
	ending := f.must(201, "POST", "/admin/v1/tokens", object{"name": "x", "role": "viewer", "expires_at": "2100-01-01T00:00:00Z"})
	if status, _, _ := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+ending["plaintext"].(string)); status != 200 {
		f.Errorf("a token before its end: %d", status)
	}
	if first := f.must(200, "GET", "/admin/v1/tokens?limit=1", nil)["items"].([]any)[0].(object); first["expires_at"] != "2100-01-01T00:00:00.000000Z" || first["last_used_at"] == nil {
		f.Errorf("the list shows %v", first)
	}
	wrong := plaintext[:len(plaintext)-1] + "0"
	if wrong == plaintext {
		wrong = plaintext[:len(plaintext)-1] + "1"
	}
	if status, _, _ := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+wrong); status != 401 {
		f.Errorf("a token that is not: %d", status)
	}
}

// TestTokenExpires: a token ends by itself, and so do streams and sessions with it.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	now := atomic.Int64{}
	now.Store(time.Now().UnixMicro())
	f := newFixture(t, databaseAt(t, func() time.Time { return time.UnixMicro(now.Load()).UTC() }))
	end := time.UnixMicro(now.Load()).Add(time.Hour).UTC().Format(time.RFC3339)
	made := f.must(201, "POST", "/admin/v1/tokens", object{"name": "x", "role": "viewer", "expires_at": end})
	ask := func() (int, string) {
		status, _, text := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+made["plaintext"].(string))
		return status, string(text)
	}
	if status, text := ask(); status != 200 {
		t.Errorf("before its end: %d %s", status, text)
	}
	now.Add(time.Hour.Microseconds())
	if status, text := ask(); status != 401 || !strings.Contains(text, "token_expired") {
		t.Errorf("after its end: %d %s", status, text)
	}
	if !strings.Contains(string(adminapi.OpenAPI()), "token_expired") {
		t.Error("openapi.json does not name the reason token_expired")
	}
}

func adminAudit(f *fixture) {
	id := f.account("setup")
	_, operator := f.token(store.RoleOperator)
	if status, _, text := f.send("PATCH", accounts+"/"+id, object{"activation_mode": "live"}, "Bearer "+operator); status != 200 {
		f.Fatalf("%d %s", status, text)
	}
	items := f.must(200, "GET", "/admin/v1/audit?target="+id, nil)["items"].([]any)
	if len(items) != 2 {
		f.Fatalf("log %v", items)
	}
	last := items[0].(object)
	actor := last["actor"].(object)
	if last["action"] != "account.update" || actor["role"] != "operator" || actor["name"] != "Ana operator" || actor["remote"] != "127.0.0.1" ||
		last["before"].(object)["activation_mode"] != "setup" || last["after"].(object)["activation_mode"] != "live" {
		f.Errorf("last %v", last)
	}
	if first := items[1].(object); first["action"] != "account.create" || first["before"] != nil || first["actor"].(object)["id"] != "file" {
		f.Errorf("first %v", first)
	}
	if page := f.must(200, "GET", "/admin/v1/audit?limit=1", nil); page["next_cursor"] == nil || len(page["items"].([]any)) != 1 {
		f.Errorf("page %v", page)
	}
	f.mustRefuse(400, "cursor_invalid", "GET", "/admin/v1/audit?cursor=nonsense", nil)
	for query, want := range map[string]bool{"?since=2026-01-01T00:00:00Z": true, "?until=2026-01-01T00:00:00Z": false} {
		if items := f.must(200, "GET", "/admin/v1/audit"+query, nil)["items"].([]any); (len(items) > 0) != want {
			f.Errorf("%s: %d entries", query, len(items))
		}
	}
	f.mustRefuse(400, "until_invalid", "GET", "/admin/v1/audit?until=x", nil)
	_, _, text := f.send("GET", "/admin/v1/audit?limit=200", nil, "Bearer "+f.Token())
	if strings.Contains(string(text), operator) || strings.Contains(string(text), `hash":`) {
		f.Error("the log shows secrets")
	}
}

// TestRoles asks every route with every role: what is too low gets 403 and
// nothing is done; what is enough gets past that.
func TestRoles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := map[store.Role]string{}
	for _, role := range []store.Role{store.RoleViewer, store.RoleOperator, store.RoleAdmin} {
		_, tokens[role] = f.token(role)
	}
	for _, r := range adminRoutes(t) {
		for role, token := range tokens {
			status, _, text := f.send(r.method, r.path+"?seconds=1", nil, "Bearer "+token) // a stream would not end
			if may := role.May(r.role); status == 401 || may == (status == 403) {
				t.Errorf("%s as %s answered %d %s", r.pattern, role, status, text)
			}
		}
	}
	if store.Role("root").May(store.RoleViewer) || store.Role("").May("") {
		t.Error("an unknown role may something")
	}
}
