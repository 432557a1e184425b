package origin

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"partneredge/edge/origin/listener"
	"partneredge/store"
	"partneredge/store/central"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/", "/admin", "/admin/v1", "/admin/v1/", "/admin/v2/accounts", "/admin/v1/accounts/", "/admin/v1//accounts", "/admin/v1/../v1/accounts", "/admin/v1/accounts/a/b"} {
		if status, _, text := f.send("GET", path, nil, "Bearer "+f.Token()); status != 404 || !strings.Contains(string(text), `"not_found"`) {
			t.Errorf("GET %s answered %d %s", path, status, text)
		}
		if status, _, _ := f.send("GET", path, nil, ""); status != 401 {
			t.Errorf("GET %s without a token answered %d", path, status)
		}
	}
	for call, allow := range map[string]string{
		"DELETE /admin/v1/accounts": "GET, HEAD, POST", "PUT /admin/v1/accounts/x": "DELETE, GET, HEAD, PATCH", "GET /admin/v1/keys/x/revoke": "POST",
	} {
		method, path, _ := strings.Cut(call, " ")
		status, header, text := f.send(method, path, nil, "Bearer "+f.Token())
		if status != 405 || header.Get("Allow") != allow || !strings.Contains(string(text), `"method_not_allowed"`) {
			t.Errorf("%s answered %d %s, Allow %q", call, status, text, header.Get("Allow"))
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _, text := f.send("GET", path, nil, ""); status != 200 || string(text) != "{\"status\":\"ok\"}\n" {
			t.Errorf("%s answered %d %s", path, status, text)
		}
	}
	f.account("live")
	status, _, text := f.send("GET", "/metrics", nil, "")
	for _, want := range []string{`edge_origin_admin_request_seconds_count{route="GET /readyz",status="200"} 1`, "edge_origin_nodes_connected 0", "edge_origin_ready 1\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics answered %d without %s:\n%s", status, want, text)
		}
	}
}

// pages is a console with a mux of its own, whose live page goes on for a while.
type pages struct{ *http.ServeMux }

func (pages) Close() {}

// The console's pages are one route, and an event stream is no long request.
func TestConsoleInMetrics(t *testing.T) {
	t.Parallel()
	p := pages{http.NewServeMux()}
	p.HandleFunc("GET /console/accounts/{id}", func(http.ResponseWriter, *http.Request) {})
	p.HandleFunc("GET /console/live", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	})
	registry := prometheus.NewRegistry()
	f := newFixture(t, func(c *Config) {
		c.Metrics, c.Console = registry, func(http.Handler) (listener.Console, error) { return p, nil }
	})
	for _, path := range []string{"/console/accounts/acc_1", "/console/live", "/console/nowhere", "/admin/v1/whoami", "/nowhere"} {
		f.send("GET", path, nil, "Bearer "+f.Token())
	}
	f.enrol("n1")
	_, _, text := f.send("GET", "/metrics", nil, "")
	for _, want := range []string{
		`edge_origin_admin_request_seconds_count{route="/console/",status="200"} 1`,
		`edge_origin_admin_request_seconds_count{route="/console/",status="404"} 1`,
		`edge_origin_admin_request_seconds_count{route="GET /admin/v1/whoami",status="200"} 1`,
		`edge_origin_admin_request_seconds_count{route="POST /admin/v1/nodes",status="201"} 1`,
		`edge_origin_admin_request_seconds_count{route="none",status="404"} 1`,
		`edge_origin_change `, `edge_origin_info{build="dev",database="sqlite"} 1`, `go_goroutines `, `process_open_fds `,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "accounts/{id}\"") || strings.Contains(string(text), "/live") {
		t.Errorf("the console's own routes are labels:\n%s", text)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("names against the conventions: %v, %v", problems, err)
	}
}

func TestFaultsAreNotDescribed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account("live")
	if err := f.config.DB.Close(); err != nil {
		t.Fatal(err)
	}
	status, header, text := f.send("GET", accounts, nil, "Bearer "+f.Token())
	if status != 500 || header.Get("Retry-After") == "" || string(text) != "{\"error\":\"internal_error\"}\n" {
		t.Errorf("without a database answered %d %s", status, text)
	}
	if status, _, text := f.send("GET", "/readyz", nil, ""); status != 503 {
		t.Errorf("without a database /readyz answered %d %s", status, text)
	}
	if status, _, text := f.send("GET", "/metrics", nil, ""); status != 200 || !strings.Contains(string(text), "edge_origin_ready 0\n") {
		t.Errorf("without a database /metrics answered %d without edge_origin_ready 0:\n%s", status, text)
	}
}

// TestMetricsSayThatTheDatabaseIsAway: who was let in before may read metrics from elsewhere
// though the database cannot be asked whose the token is, and nothing else.
func TestMetricsSayThatTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, viewer := f.token(store.RoleViewer)
	_, unused := f.token(store.RoleViewer)
	want := func(path, authorization string, status int, line string) {
		t.Helper()
		if got, _, text := f.send("GET", path, nil, authorization, "X-Forwarded-For", "192.0.2.1"); got != status || !strings.Contains(string(text), line) {
			t.Errorf("%s answered %d, want %d with %q:\n%s", path, got, status, line, text)
		}
	}
	want("/metrics", "Bearer "+viewer, 200, "edge_origin_ready 1\n")
	if err := f.config.DB.Close(); err != nil {
		t.Fatal(err)
	}
	want("/metrics", "Bearer "+viewer, 200, "edge_origin_ready 0\n")
	want("/metrics", "Bearer "+unused, 500, "internal_error")
	want("/metrics", "Bearer wrong", 401, "wrong_token")
	want("/metrics", "", 401, "missing_bearer_token")
	want("/admin/v1/whoami", "Bearer "+viewer, 500, "internal_error")
}

// TestTokenIsReadWhileNothingIsWritten: a request does not wait until the use of its token is
// noted, where the database takes no writes. Stop does.
func TestTokenIsReadWhileNothingIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, viewer := f.token(store.RoleViewer)
	other := f.database()
	if _, err := other.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	if status, _, text := f.send("GET", "/admin/v1/whoami", nil, "Bearer "+viewer); status != 200 || !strings.Contains(string(text), id) {
		t.Errorf("while nothing is written it answered %d %s", status, text)
	}
	if _, err := other.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	f.stop()
	tokens, _, err := f.config.DB.Tokens(t.Context(), store.Page{})
	if err != nil || len(tokens) != 1 || tokens[0].LastUsedAt.IsZero() {
		t.Errorf("the use of the token is not noted: %+v, %v", tokens, err)
	}
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := filepath.Join(f.config.Dir, "admin.token")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	text, _ := os.ReadFile(path)
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).Match(text) || string(text) != f.Token() {
		t.Error("the file does not hold the token alone")
	}
	token := f.Token()
	f.stop()
	f.start()
	if f.Token() != token {
		t.Error("a restart makes another token")
	}
	f.stop()

	seed := filepath.Join(f.config.Dir, "nats", "account.seed")
	for _, secret := range []string{path, seed} {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
			if err := os.Chmod(secret, mode); err != nil {
				t.Fatal(err)
			}
			o, err := Start(t.Context(), f.config)
			if err == nil {
				_ = o.Stop(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), "chmod 600 '"+secret+"'") {
				t.Errorf("%s with mode %v: %v", secret, mode, err)
			}
		}
		if err := os.Chmod(secret, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	own := filepath.Join(t.TempDir(), "own")
	f.config.AdminTokenFile = own
	for content, good := range map[string]bool{"correct-horse-battery": true, " correct-horse-battery\r\n\n": true, "short": false, "": false, "two words that are long": false} {
		if err := os.WriteFile(own, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := Start(t.Context(), f.config)
		if (err == nil) != good {
			t.Errorf("a token file of %q: %v", content, err)
		}
		if err != nil {
			continue
		}
		if o.Token() != "correct-horse-battery" {
			t.Errorf("a token file of %q gave %q", content, o.Token())
		}
		if err := o.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestWrongTokens: who presents wrong tokens is in the audit log, and then refused for
// a while, but not whoever has used a right one from there.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	began := time.Now() // and no time goes by, which would let one more through every six seconds
	f := newFixture(t, func(c *Config) { c.WrongTokens, c.Now = 3, func() time.Time { return began } })
	f.contract = readContract(t)
	_, viewer := f.token(store.RoleViewer)
	const whoami = "/admin/v1/whoami"
	for range 10 {
		if status, _, _ := f.send("GET", whoami, nil, ""); status != 401 {
			t.Errorf("without a token %d", status)
		}
	}
	for i := range 3 {
		if status, _, text := f.send("GET", whoami, nil, "Bearer wrong"); status != 401 {
			t.Errorf("wrong token %d: %d %s", i, status, text)
		}
	}
	for _, token := range []string{"wrong", viewer} {
		status, header, text := f.send("GET", whoami, nil, "Bearer "+token)
		if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(text), "too_many_wrong_tokens") {
			t.Errorf("beyond the bound: %d %s", status, text)
		}
	}
	for _, r := range adminRoutes(t) {
		if status, _, text := f.send(r.method, r.path, nil, "Bearer wrong"); status != 429 {
			t.Errorf("%s beyond the bound: %d %s", r.pattern, status, text)
		}
	}
	if status, _, text := f.send("GET", "/v2/", nil, "Basic "+base64.StdEncoding.EncodeToString([]byte("x:wrong"))); status != 429 {
		t.Errorf("at the registry: %d %s", status, text)
	}
	if status, _, _ := f.send("GET", whoami, nil, "Bearer "+f.Token()); status != 200 {
		t.Errorf("a token that was right before: %d", status)
	}
	entries := f.must(200, "GET", "/admin/v1/audit?target=127.0.0.1", nil)["items"].([]any)
	if len(entries) == 0 || len(entries) > 3 { // one, and on a slow machine one for those that come later
		t.Fatalf("the audit log has %v", entries)
	}
	entry := entries[len(entries)-1].(object)
	if actor := entry["actor"].(object); entry["action"] != "login.refuse" || actor["remote"] != "127.0.0.1" || actor["name"] != "unknown" || entry["after"].(object)["wrong_tokens"] != 1.0 {
		t.Errorf("the audit log has %v", entry)
	}
	f.stop()
	rest, _, err := f.config.DB.Audits(context.Background(), central.AuditFilter{Target: "127.0.0.1"}, store.Page{Limit: 10})
	if err != nil || len(rest) != 2 || string(rest[0].After) != `{"wrong_tokens":2}` {
		t.Errorf("after the end the audit log has %v, %v; want the 2 tokens that followed", rest, err)
	}
}

// TestWrongTokensThroughAProxy: behind a proxy that is trusted, wrong tokens count for the
// client that presents them, whom the audit log names; nobody else's word is taken.
func TestWrongTokensThroughAProxy(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for name, one := range map[string]struct {
		proxies      []netip.Prefix
		status       int
		wrong, right string // addresses in the audit log
	}{
		"a proxy": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 201, "192.0.2.1", "192.0.2.2"},
		"none":    {nil, 429, "127.0.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(c *Config) {
				c.WrongTokens, c.AdminProxies, c.Now = 3, one.proxies, func() time.Time { return began }
			})
			_, operator := f.token(store.RoleOperator)
			for range 5 {
				f.send("GET", "/admin/v1/whoami", nil, "Bearer wrong", "X-Forwarded-For", "192.0.2.1")
			}
			account := object{"name": "Ridge Realty", "agent": object{"full_name": "Ana Lima", "email": "ana@ridge.example"}}
			if status, _, text := f.send("POST", "/admin/v1/accounts", account, "Bearer "+operator, "X-Forwarded-For", "192.0.2.9, 192.0.2.2"); status != one.status {
				t.Errorf("another client's right token: %d %s, want %d", status, text, one.status)
			}
			for action, remote := range map[string]string{"login.refuse": one.wrong, "account.create": one.right} {
				if remote == "" {
					continue
				}
				entries := f.must(200, "GET", "/admin/v1/audit", nil)["items"].([]any)
				at := slices.IndexFunc(entries, func(e any) bool { return e.(object)["action"] == action })
				if at < 0 {
					t.Fatalf("the audit log has no %s", action)
				}
				if actor := entries[at].(object)["actor"].(object); actor["remote"] != remote {
					t.Errorf("%s is of %v, want %s", action, actor, remote)
				}
			}
		})
	}
}

// TestRegistryRefusesPagesOfOthers: a browser sends a password that it knows by itself.
func TestRegistryRefusesPagesOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+f.Token()))
	for site, want := range map[string]int{"": 202, "same-origin": 202, "cross-site": 403, "same-site": 403} {
		var more []string
		if site != "" {
			more = []string{"Sec-Fetch-Site", site}
		}
		if status, _, text := f.send("POST", "/v2/releases/blobs/uploads/", nil, basic, more...); status != want {
			t.Errorf("from %q: %d %s, want %d", site, status, text, want)
		}
	}
	if status, _, _ := f.send("POST", "/v2/releases/blobs/uploads/", nil, basic, "Origin", "https://evil.example"); status != 403 {
		t.Errorf("from another origin: %d", status)
	}
}

// TestFailedUploadsHoldUpNobody: more pushes fail than may be under way, some whole in
// one request and some in pieces.
func TestFailedUploadsHoldUpNobody(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(late.Load())) }
	f := newFixture(t, databaseAt(t, now))
	push := func(query string) int {
		status, _, _ := f.send("POST", "/v2/releases/blobs/uploads/"+query, "content", "Bearer "+f.Token())
		return status
	}
	for range 100 {
		if status := push("?digest=sha256:" + strings.Repeat("0", 64)); status != 400 {
			t.Fatalf("a push of another digest: %d", status)
		}
	}
	for range 64 {
		if status := push(""); status != 202 {
			t.Fatalf("an upload is not begun: %d", status)
		}
	}
	if status := push(""); status != 429 {
		t.Errorf("beyond the bound: %d", status)
	}
	late.Store(int64(61 * time.Second))
	if status := push(""); status != 202 {
		t.Errorf("a minute after the others have failed: %d", status)
	}
}
