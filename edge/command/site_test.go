package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/edge/wan"
	"partneredge/store"
)

// site is an origin, and nodes that reach it through a relay each, all of them
// processes of their own.
type site struct {
	t          *testing.T
	program    string // that the origin runs
	dir        string
	originDir  string
	originArgs []string
	natsListen string
	origin     *process
	ready      originReady
	admin      *adminapi.Client
	account    string
}

// startSite starts the origin and makes an account. The origin keeps its NATS
// port when it is started again.
func startSite(t *testing.T, originArgs ...string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, program: testFiles.program(t), dir: dir, originDir: filepath.Join(dir, "origin"), originArgs: originArgs, natsListen: addresstest.Fixed(t)}
	s.startOrigin()
	s.account = makeAccount(t, s.admin)
	return s
}

func (s *site) startOrigin() {
	s.t.Helper()
	s.ready = originReady{}
	args := append([]string{"origin", "--data", s.originDir, "--admin", "127.0.0.1:0", "--nats-listen", s.natsListen}, s.originArgs...)
	s.origin = startProgram(s.t, s.program, filepath.Join(s.originDir, "origin.json"), &s.ready, args...)
	s.admin = adminOf(s.t, s.originDir, s.ready.AdminURL)
}

// adminOf is the admin API of an origin process, with its own token.
func adminOf(t *testing.T, originDir, address string) *adminapi.Client {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(originDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return &adminapi.Client{URL: address, Token: strings.TrimSpace(string(token))}
}

func makeAccount(t *testing.T, admin *adminapi.Client) string {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	if err := admin.Call(t.Context(), "POST", "/accounts", map[string]any{
		"name": "Reyes Realty", "activation_mode": store.ModeLive,
		"agent": map[string]string{"email": "dana@example.com", "full_name": "Dana Reyes"},
	}, &made); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// key makes a live key with every scope.
func (s *site) key() mintedKey {
	s.t.Helper()
	return makeKey(s.t, s.admin, s.account, 100_000)
}

func makeKey(t *testing.T, admin *adminapi.Client, account string, perMinute int) (made mintedKey) {
	t.Helper()
	if err := admin.Call(t.Context(), "POST", "/accounts/"+account+"/keys", map[string]any{
		"environment": store.Live, "rate_limit": perMinute,
		"scopes": []string{store.ScopeReadAgent, store.ScopeReadCoaching, store.ScopeReadSentinels, store.ScopeWriteWebhooks, store.ScopeWriteLeads},
	}, &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *site) revoke(k mintedKey) {
	s.t.Helper()
	if err := s.admin.Call(s.t.Context(), "POST", "/keys/"+k.Key.ID+"/revoke", nil, nil); err != nil {
		s.t.Fatal(err)
	}
}

// arrived waits until the origin has exactly these leads, each once.
func (s *site) arrived(sent []string) {
	s.t.Helper()
	await(s.t, "the leads to arrive", func() bool { return len(allLeads(s.t, s.admin, s.account)) >= len(sent) })
	if got := sorted(allLeads(s.t, s.admin, s.account)); !slices.Equal(got, sorted(sent)) {
		s.t.Errorf("%d leads at the origin, %d were accepted, or others", len(got), len(sent))
	}
}

// allLeads are the ids of an account's leads on all pages.
func allLeads(t *testing.T, admin *adminapi.Client, account string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
			NextCursor *string `json:"next_cursor"`
		}
		if err := admin.Call(t.Context(), "GET", "/accounts/"+account+"/leads?limit=200&cursor="+cursor, nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Items {
			ids = append(ids, l.ID)
		}
		if page.NextCursor == nil {
			return ids
		}
		cursor = *page.NextCursor
	}
}

// regional is a node as a process.
type regional struct {
	*process
	t           *testing.T
	program     string // that it runs
	dir         string // of its data
	region      string
	credentials string
	origin      string // NATS URL
	relay       *wan.Relay
	ready       nodeReady
}

// node enrols a node and starts it behind a relay of its own.
func (s *site) node(region string) *regional {
	s.t.Helper()
	address, err := url.Parse(s.ready.NATSURL)
	if err != nil {
		s.t.Fatal(err)
	}
	relay, err := wan.Start(s.t.Context(), wan.Config{Target: address.Host})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(relay.Stop)
	address.Host = relay.Addr()
	n := enrolled(s.t, s.admin, filepath.Join(s.dir, region), region, address.String())
	n.relay = relay
	n.start()
	return n
}

// enrolled is a node that is yet to be started.
func enrolled(t *testing.T, admin *adminapi.Client, dir, region, origin string) *regional {
	t.Helper()
	n := &regional{t: t, program: testFiles.program(t), dir: filepath.Join(dir, "data"), region: region, origin: origin}
	var err error
	if n.credentials, err = dev.Enrol(t.Context(), admin, dir, region); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *regional) start(more ...string) {
	n.t.Helper()
	n.ready = nodeReady{}
	n.process = startProgram(n.t, n.program, filepath.Join(n.dir, "node.json"), &n.ready, n.args(more...)...)
}

func (n *regional) args(more ...string) []string {
	return append([]string{"node", "--data", n.dir, "--region", n.region, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--origin", n.origin, "--credentials", n.credentials, "--modules", testFiles.modules, "--cache", testFiles.cache, "--module-cpu", "10s"}, more...)
}

// get asks who the key is.
func (n *regional) get(key string) int {
	n.t.Helper()
	status, _ := request(n.t, "GET", n.ready.BaseURL+"/api/v2/public/agents/me", key, "")
	return status
}

// answer is that to who the key is, without its body.
func (n *regional) answer(key string) *http.Response {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), "GET", n.ready.BaseURL+"/api/v2/public/agents/me", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// lead sends one and returns the status, and its id when it was accepted. once
// is its idempotency key; "" is none.
func (n *regional) lead(key, name, once string) (status int, id string) {
	n.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"phone":"+1 555 010 0000"}`, name)
	req, err := http.NewRequestWithContext(n.t.Context(), "POST", n.ready.BaseURL+"/api/v2/public/leads", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if once != "" {
		req.Header.Set("Idempotency-Key", once)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Lead struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		n.t.Fatalf("sending a lead: %d: %v", resp.StatusCode, err)
	}
	return resp.StatusCode, answer.Lead.ID
}

// accepted is lead, some times, each of which must be taken.
func (n *regional) accepted(key string, some int) (ids []string) {
	n.t.Helper()
	for i := range some {
		status, id := n.lead(key, fmt.Sprintf("Lead Number%03d", i), "")
		if status != http.StatusCreated {
			n.t.Fatalf("sending a lead: %d\n%s", status, n.out)
		}
		ids = append(ids, id)
	}
	return ids
}

// metric reads a metric of the node.
func (n *regional) metric(name string) float64 {
	n.t.Helper()
	return metricAt(n.t, n.ready.MetricsURL, name)
}

// signal stops (SIGSTOP) or continues (SIGCONT) the process.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
