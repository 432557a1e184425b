package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/node/openapi"
)

// clientTool returns the path of a program that scripts/clienttools installs, and
// skips the test loudly where it is missing. EDGE_REQUIRE_CLIENTTOOLS=1 makes that
// a failure.
func clientTool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../build/clienttools", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("EDGE_REQUIRE_CLIENTTOOLS") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: needs %s, which scripts/clienttools installs", filepath.Base(name))
	}
	return path
}

// TestDocumentTools holds the OpenAPI document against the linters that partners
// use, and runs the clients that they generate from it.
func TestDocumentTools(t *testing.T) {
	dir := t.TempDir()
	document := filepath.Join(dir, "openapi.json")
	write := func(t *testing.T, name string, content []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "openapi.json", openapi.Document())
	output := func(t *testing.T, program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1", "CGO_ENABLED=0", "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
		}
		return string(out)
	}
	t.Run("redocly", func(t *testing.T) {
		tool := clientTool(t, "node_modules/.bin/redocly")
		if out := output(t, tool, "lint", document, "--format=json"); !strings.Contains(out, `"totals": {`) || !strings.Contains(out, `"errors": 0`) || !strings.Contains(out, `"warnings": 0`) {
			t.Errorf("redocly complains:\n%s", out)
		}
	})
	t.Run("spectral", func(t *testing.T) {
		tool := clientTool(t, "node_modules/.bin/spectral")
		write(t, ".spectral.yaml", []byte("extends: [\"spectral:oas\"]\n"))
		output(t, tool, "lint", "--fail-severity=hint", "--ruleset", ".spectral.yaml", document)
	})

	tool := map[string]string{}
	for _, name := range []string{"oapi-codegen", "node_modules/.bin/openapi-typescript", "node_modules/.bin/openapi-ts", "node_modules/.bin/tsc"} {
		tool[filepath.Base(name)] = clientTool(t, name)
	}
	d := startDevForTest(t, t.TempDir())
	key := d.account.Keys.Test
	fireAtOnce(t, d, 3)
	run := func(t *testing.T, program string, args ...string) {
		t.Helper()
		const want = `[true,1,1,"Okafor",64,true,"invalid_lead",3]`
		if got := strings.TrimSpace(output(t, program, append(args, d.nodes[0].URL(), key)...)); got != want {
			t.Errorf("the client says %s, want %s", got, want)
		}
	}
	copied := func(t *testing.T, from, to string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata/clients", from))
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, text)
	}
	// guided runs a program of the guide, which sends a lead, and has to send it again.
	guided := func(t *testing.T, program string, args ...string) {
		t.Helper()
		front, keys := startUnwilling(t, d.nodes[0].URL())
		t.Setenv("EDGE_URL", front)
		t.Setenv("TEST", key)
		if got := output(t, program, args...); !strings.HasPrefix(got, "201 lead_") {
			t.Errorf("the guide's client says %s", got)
		}
		if sent := keys(); len(sent) < 4 || sent[0] == "" || len(slices.Compact(slices.Clone(sent))) != 1 {
			t.Errorf("requests with the Idempotency-Keys %q, want four or more with the same", sent)
		}
	}
	own := func(program string) string { return strings.ReplaceAll(program, "example.com/partner/", "clients/") }
	t.Run("oapi-codegen", func(t *testing.T) {
		write(t, "go/openapi/openapi.go", []byte(output(t, tool["oapi-codegen"], document)))
		copied(t, "go/main.go", "go/main.go")
		write(t, "go/firings.go", []byte(own(commandsOf(t, "pagination", "go")[0])))
		write(t, "go/go.mod", []byte("module clients\n\ngo 1.26\n"))
		output(t, "go", "-C", "go", "mod", "tidy")
		output(t, "go", "-C", "go", "build", "-o", "client", ".")
		run(t, filepath.Join(dir, "go/client"))
		for i, name := range []string{"go/retry.go", "go/main.go"} {
			write(t, name, []byte(own(commandsOf(t, "clients", "go")[i])))
		}
		output(t, "go", "-C", "go", "build", "-o", "guide", ".")
		guided(t, filepath.Join(dir, "go/guide"))
	})
	t.Run("typescript", func(t *testing.T) {
		for _, name := range []string{"openapi-typescript.mts", "hey-api.ts", "tsconfig.json"} {
			copied(t, name, name)
		}
		if err := os.Symlink(filepath.Dir(filepath.Dir(tool["tsc"])), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		// As the guide has it, and under a name by which it is checked whole, as what libraries
		// declare is not.
		output(t, tool["openapi-typescript"], document, "-o", "schema.d.ts")
		schema, err := os.ReadFile(filepath.Join(dir, "schema.d.ts"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, "schema.ts", schema)
		output(t, tool["openapi-ts"], "-i", document, "-o", "hey")
		for i, name := range []string{"retry.mts", "lead.mts"} {
			write(t, name, []byte(commandsOf(t, "clients", "ts")[i]))
		}
		write(t, "firings.mts", []byte(commandsOf(t, "pagination", "ts")[0]))
		typed := strings.Replace(commandsOf(t, "verifying", "js")[0], "function verify(header, body, secret) {", strings.TrimSpace(commandsOf(t, "verifying", "ts")[0]), 1)
		write(t, "receiver.mts", []byte(typed))
		output(t, tool["tsc"], "-p", ".")
		run(t, "node", "out/openapi-typescript.mjs")
		run(t, "node", "out/hey-api.js")
		guided(t, "node", "out/lead.mjs")
	})
}

// startUnwilling starts a front of a node, which refuses the first request for its rate, the
// second for a fault, cuts the connection of the third, and passes on the others. It returns
// the front's address, and the Idempotency-Keys of all requests.
func startUnwilling(t *testing.T, node string) (address string, keys func() []string) {
	t.Helper()
	u, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(u)
	var mu sync.Mutex
	var sent []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = append(sent, r.Header.Get("Idempotency-Key"))
		n := len(sent)
		mu.Unlock()
		switch n {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler)
		default:
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	return front.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
}

// fireAtOnce records firings at one time, which the origin sets a microsecond apart.
func fireAtOnce(t *testing.T, d *devProcess, n int) {
	t.Helper()
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	for range n {
		if err := admin.Call(t.Context(), "POST", "/accounts/"+d.account.AccountID+"/sentinel-firings",
			map[string]any{"sentinel_name": "stale_lead", "trigger_data": map[string]int{"days": 9}, "action_taken": "task_created",
				"triggered_at": "2026-03-02T14:05:11.201934Z"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the node to have the firings", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.nodes[0].URL()+"/api/v2/public/sentinels/firings", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.account.Keys.Test)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var page struct{ Count int }
		return json.NewDecoder(resp.Body).Decode(&page) == nil && page.Count == n
	})
}

// TestDocsClientsTryAgain has the guide's client in Python meet a server that says nothing,
// breaks the connection, breaks off an answer, has a balancer refuse in HTML until a date, and
// refuses for a minute. Then comes the last answer, which need not be JSON either.
func TestDocsClientsTryAgain(t *testing.T) {
	t.Parallel()
	needTool(t, "python3")
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{http.StatusCreated, `{"lead":{"id":"lead_1"}}`, "201 lead_1"},
		{http.StatusConflict, `{"error":"conflict"}`, "409 {'error': 'conflict'}"},
		{http.StatusBadRequest, "400 Bad Request", "400 400 Bad Request"},
		{http.StatusServiceUnavailable, "<html>\xff</html>", "503 <html>\uFFFD</html>"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			tryAgain(t, tt.status, tt.body, tt.want)
		})
	}
}

// tryAgain runs the guide's client against a server whose last answer has a status and a body.
// The program's sleep is replaced, so it says how long it would wait.
func tryAgain(t *testing.T, status int, body, last string) {
	const observed = `
import time, urllib.request
waits, urlopen = [], urllib.request.urlopen
def opening(request, timeout):
    request.add_header("X-Attempt", str(len(waits)))
    return urlopen(request, timeout=timeout if waits else 0.1)
def sleep(seconds):
    waits.append(seconds)
    print("waits", seconds)
urllib.request.urlopen, time.sleep = opening, sleep
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Header.Get("Idempotency-Key") != "python-1" {
			t.Errorf("a request with %v, %v", r.Header, err)
		}
		switch r.Header.Get("X-Attempt") {
		case "0":
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // or the answer might still be read
		case "1":
			panic(http.ErrAbortHandler)
		case "2":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		case "3":
			w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			http.Error(w, "<html>503 Service Unavailable</html>", http.StatusServiceUnavailable)
		case "4":
			w.Header().Set("Retry-After", "60")
			http.Error(w, "{}", http.StatusTooManyRequests)
		default:
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}))
	defer server.Close()
	cmd := exec.Command("python3", "-c", observed+commandsOf(t, "clients", "python")[0])
	cmd.Env = append(os.Environ(), "EDGE_URL="+server.URL, "TEST=key", "PYTHONIOENCODING=utf-8", "no_proxy=*", "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	waits := []struct{ least, most float64 }{{1, 1}, {2, 2}, {4, 4}, {3500, 3600}, {60, 60}}
	if err != nil || len(lines) != len(waits)+1 || lines[len(waits)] != last {
		t.Fatalf("the guide's client says %s, %v; want at its end %s", out, err, last)
	}
	for i, want := range waits {
		var wait float64
		if _, err := fmt.Sscanf(lines[i], "waits %g", &wait); err != nil || wait < want.least || wait > want.most*1.2 {
			t.Errorf("attempt %d: %s, want %+v s or a fifth more", i, lines[i], want)
		}
	}
}

// TestDocsClients runs the guide's client in Python, which needs no generator.
func TestDocsClients(t *testing.T) {
	needTool(t, "python3")
	d := startDevForTest(t, t.TempDir())
	cmd := exec.Command("python3", "-c", commandsOf(t, "clients", "python")[0])
	cmd.Env = append(os.Environ(), "EDGE_URL="+d.nodes[0].URL(), "TEST="+d.account.Keys.Test, "no_proxy=*", "NO_PROXY=*")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "201 lead_") {
		t.Errorf("the guide's client says %s, %v", out, err)
	}
}
