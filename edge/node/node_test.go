package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"partneredge/store"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// builtModules are the real modules, built once a run.
var builtModules = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"gate", "agents", "coaching", "sentinels", "webhooks", "leads"} {
		out, err := exec.Command("../../scripts/build-module", "wasm/modules/"+name, modulesDir).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return modulesDir, nil
})

func plaintext(id string) string {
	var random [apikey.RandomSize]byte
	sum := sha256.Sum256([]byte(id))
	for i := range random {
		random[i] = sum[i%len(sum)]
	}
	return apikey.Mint(abi.EnvLive, &random)
}

// secondsPassed is a clock that a test can move on.
type secondsPassed struct{ atomic.Int64 }

func (s *secondsPassed) now() time.Time {
	return time.Now().Add(time.Duration(s.Load()) * time.Second)
}

func config(t *testing.T, o *testOrigin) Config {
	t.Helper()
	dir, err := builtModules()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Data: t.TempDir(), Region: "test", Origin: o.url, Credentials: o.credentials, Modules: dir, Engine: modules.New, Cache: cacheDir,
		// On a busy machine nothing that is to succeed runs out of time.
		ReadOrigin: time.Minute, WriteOrigin: time.Minute,
		HandshakeTimeout: 5 * time.Minute, ReadTimeout: 5 * time.Minute, WriteTimeout: 5 * time.Minute,
		StartTimeout: 5 * time.Minute, ModuleCPU: 10 * time.Second, callTimeout: 2 * time.Minute,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// startNode starts a node.
func startNode(t *testing.T, c Config) *Node {
	t.Helper()
	n, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNode(t, n) })
	return n
}

func stopNode(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// answer of a node.
type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, n *Node, method, path, key, body string) answer {
	t.Helper()
	return send(t, n, method, path, key, "", body)
}

// askOnce posts with an idempotency key.
func askOnce(t *testing.T, n *Node, path, key, once, body string) answer {
	t.Helper()
	return send(t, n, http.MethodPost, path, key, once, body)
}

func send(t *testing.T, n *Node, method, path, key, once, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if once != "" {
		req.Header.Set("Idempotency-Key", once)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (a answer) want(t *testing.T, status int, parts ...string) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, p := range parts {
		if !strings.Contains(a.body, p) {
			t.Fatalf("%s is not in %s", p, a.body)
		}
	}
	return a
}

// eventually polls for as long as compiling may take on a busy machine, ever more
// seldom: what is waited for needs the processors too.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const most = 5 * time.Minute
	deadline := time.Now().Add(most)
	for pause := 5 * time.Millisecond; !ok(); pause = min(pause+pause/4, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
		<-time.After(pause)
	}
}

const (
	me       = "/api/v2/public/agents/me"
	insights = "/api/v2/public/coaching/insights"
	firings  = "/api/v2/public/sentinels/firings"
	webhooks = "/api/v2/public/webhooks/"
	newLead  = "/api/v2/public/leads"
	someLead = `{"name":"Jane Doe","email":"jane@example.com"}`
)

// operatorsPage returns what a node answers to a path of its operators' listener, 200.
func operatorsPage(t *testing.T, n *Node, path string) string {
	t.Helper()
	resp, err := http.Get(n.MetricsURL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	return string(text)
}

func TestOperatorsView(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200)
	operatorsPage(t, n, "/healthz")
	operatorsPage(t, n, "/readyz")
	text := operatorsPage(t, n, "/metrics")
	for _, line := range []string{
		`edge_http_requests_total{handler="agents",status="200"} 1`, `edge_keys_held 1`, `edge_origin_connected 1`, `edge_node_in_service 1`,
		`edge_key_lookups_total{outcome="miss"} 1`, `edge_node_info{build="dev",region="test"} 1`, `edge_sync_change 1`,
		`edge_node_release{digest="",state="own_modules",version=""} 1`,
		`edge_module_calls_total{digest="` + digestOf(t, "agents") + `",module="agents"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	problems, err := testutil.GatherAndLint(n.metrics.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("names against the conventions: %v, %v", problems, err)
	}
	ask(t, n, "GET", "/api/v2/public/openapi.json", "", "").want(t, 200, `"openapi"`)
	ask(t, n, "GET", "/docs", "", "").want(t, 200)
	eventually(t, "the origin knows how the node is", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.status != nil && o.status.HotKeys == 1 && o.status.Region == "test" && o.status.Seq == 1 && o.status.Sandboxes > 0
	})
}

func digestOf(t *testing.T, module string) string {
	t.Helper()
	sum := sha256.Sum256(must(os.ReadFile(filepath.Join(modulesDir, module+".wasm")))(t))
	return hex.EncodeToString(sum[:])[:12]
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	for name, edit := range map[string]func(*Config){
		"no region":        func(c *Config) { c.Region = "" },
		"no credentials":   func(c *Config) { c.Credentials = c.Data + "/none" },
		"no modules":       func(c *Config) { c.Modules = c.Data },
		"no certificate":   func(c *Config) { c.TLSCert, c.TLSKey = "none", "none" },
		"address in use":   func(c *Config) { c.Listen = strings.TrimPrefix(o.url, "nats://") },
		"origin is not up": func(c *Config) { c.Origin, c.StartTimeout = "nats://127.0.0.1:1", 300*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, o)
			edit(&c)
			if n, err := Start(t.Context(), c); err == nil {
				stopNode(t, n)
				t.Error("started")
			}
			if _, err := os.Stat(filepath.Join(c.Data, "state")); name == "address in use" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it opened its state before it saw that it cannot listen: %v", err)
			}
		})
	}
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	n := startNode(t, config(t, o))
	stopNode(t, n)
	stopNode(t, n)
	if resp, err := http.Get(n.URL()); err == nil {
		resp.Body.Close()
		t.Error("answers after it was stopped")
	}
}
