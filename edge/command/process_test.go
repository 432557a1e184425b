package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/store/durable"
	"partneredge/store/logtest"
)

// process is the program, run as one of its own.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *logtest.Buffer
	done chan error
}

// startProcess runs `edge args…` and waits until it has written the file ready.
func startProcess(t *testing.T, ready string, into any, args ...string) *process {
	t.Helper()
	return startProgram(t, testFiles.program(t), ready, into, args...)
}

// startProgram does so with another build of the program.
func startProgram(t *testing.T, program, ready string, into any, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: args[0], cmd: exec.Command(program, args...), out: new(logtest.Buffer), done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	_ = os.Remove(ready)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { p.kill() })
	deadline := time.NewTimer(5 * time.Minute) // the race detector makes compiling slow
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for durable.ReadJSON(ready, into) != nil {
		select {
		case err := <-p.done:
			p.done <- err
			t.Fatalf("edge %s ended: %v\n%s", p.name, err, p.out)
		case <-deadline.C:
			t.Fatalf("edge %s is not ready:\n%s", p.name, p.out)
		case <-again.C:
		}
	}
	return p
}

// terminate ends it as a supervisor does, and holds it to a clean end.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.done:
		p.done <- err
		if err != nil {
			p.t.Errorf("edge %s, told to stop: %v\n%s", p.name, err, p.out)
		}
	case <-time.After(stopTime + time.Minute):
		p.t.Fatalf("edge %s does not stop:\n%s", p.name, p.out)
	}
}

// kill ends it by force. What it has written stays, synced or not: only a power
// cut loses that, for which package durabletest has a disk.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	err := <-p.done
	p.done <- err
}

// TestProcesses runs an origin and a node apart, ends each cleanly and by force,
// and holds that no lead is lost, nor a key forgotten, nor a secret logged.
func TestProcesses(t *testing.T) {
	t.Parallel()
	modules, cache := testFiles.get(t)
	dir := t.TempDir()
	originDir, nodeDir := filepath.Join(dir, "origin"), filepath.Join(dir, "node")
	var o originReady
	natsListen := addresstest.Fixed(t) // where the node looks for it again
	var logs strings.Builder
	startOrigin := func() *process {
		return startProcess(t, filepath.Join(originDir, "origin.json"), &o, "origin", "--data", originDir,
			"--admin", "127.0.0.1:0", "--nats-listen", natsListen, "--log-level", "debug")
	}
	origin := startOrigin()
	token, err := os.ReadFile(filepath.Join(originDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	admin := &adminapi.Client{URL: o.AdminURL, Token: strings.TrimSpace(string(token))}
	held, err := dev.OpenAccount(t.Context(), admin, filepath.Join(dir, "held.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := makeKey(t, admin, held.AccountID, 100).Plaintext
	credentials, err := dev.Enrol(t.Context(), admin, dir, "eu")
	if err != nil {
		t.Fatal(err)
	}
	var n nodeReady
	startNode := func() *process {
		return startProcess(t, filepath.Join(nodeDir, "node.json"), &n, "node", "--data", nodeDir, "--region", "eu",
			"--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--origin", o.NATSURL, "--credentials", credentials,
			"--modules", modules, "--cache", cache, "--module-cpu", "10s", "--log-level", "debug", "--log-format", "json")
	}
	node := startNode()

	get := func(key string) int {
		status, _ := request(t, "GET", n.BaseURL+"/api/v2/public/agents/me", key, "")
		return status
	}
	var sent []string
	lead := func() {
		name := fmt.Sprintf("Lead Number%02d", len(sent))
		status, body := request(t, "POST", n.BaseURL+"/api/v2/public/leads", held.Keys.Live, `{"name":"`+name+`","phone":"+1 555 010 0000"}`)
		if status != http.StatusCreated {
			t.Fatalf("sending a lead: %d %s", status, body)
		}
		var answer struct{ Lead struct{ ID string } }
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, answer.Lead.ID)
	}
	known(t, n.BaseURL, held.Keys.Live)
	for range 3 {
		lead()
	}

	// The origin is gone without a word: leads are taken, what is held is served,
	// what is not cannot be.
	origin.kill()
	for range 3 {
		lead()
	}
	if status := get(other); status != http.StatusInternalServerError {
		t.Errorf("a key that the node never met, without the origin: %d, want 500", status)
	}

	// The node too, right after it has answered; it comes back alone.
	lead()
	node.kill()
	logs.WriteString(node.out.String())
	node = startNode()
	if status := get(held.Keys.Live); status != http.StatusOK {
		t.Errorf("a key that the node holds, after its restart without the origin: %d", status)
	}
	lead()

	// The origin comes back: all that was taken arrives, each once.
	logs.WriteString(origin.out.String())
	origin = startOrigin()
	admin.URL = o.AdminURL
	await(t, "the leads to arrive", func() bool { return len(leadIDs(t, admin, held.AccountID)) >= len(sent) })
	if got := leadIDs(t, admin, held.AccountID); !slices.Equal(sorted(got), sorted(sent)) {
		t.Errorf("arrived: %v, want %v", sorted(got), sorted(sent))
	}
	await(t, "the other key to be known", func() bool { return get(other) == http.StatusOK })

	node.terminate()
	origin.terminate()
	for _, left := range []string{filepath.Join(nodeDir, "node.json"), filepath.Join(originDir, "origin.json")} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s outlives its process", left)
		}
	}

	logs.WriteString(node.out.String())
	logs.WriteString(origin.out.String())
	if logs.Len() < 1000 {
		t.Errorf("%d bytes of log: too little to tell", logs.Len())
	}
	seed, err := os.ReadFile(credentials)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{admin.Token, held.Keys.Live, held.Keys.Test, other, "Number0", "555 010", nkeySeed.FindString(string(seed))}
	for _, secret := range secrets {
		if secret == "" || strings.Contains(logs.String(), secret) {
			t.Errorf("the log holds a secret: %q", secret)
		}
	}
}

// TestDataDirectoryIsLocked: a second process over the same files would spoil
// them, also one of another command, and one with a directory of its own for the rest.
func TestDataDirectoryIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "origin")
	var o originReady
	args := []string{"origin", "--data", dir, "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
	first := startProcess(t, filepath.Join(dir, "origin.json"), &o, args...)
	modules, cache := testFiles.get(t)
	asDev := []string{"dev", "--data", filepath.Dir(dir), "--port", "0", "--modules", modules, "--cache", cache}
	elsewhere := []string{"origin", "--data", t.TempDir(), "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--database", filepath.Join(dir, databaseFile)}
	for _, second := range [][]string{args, asDev, elsewhere} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, testFiles.program(t), second...).CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), "is in use by another process") || !strings.Contains(string(out), "hint: ") {
			t.Errorf("edge %s over the same data: %v\n%s", strings.Join(second, " "), err, out)
		}
	}
	first.terminate()
}

func request(t *testing.T, method, url, key, body string) (status int, answer []byte) {
	t.Helper()
	return requestWith(t, method, url, key, body, nil)
}

// requestWith sends a request with more headers.
func requestWith(t *testing.T, method, url, key, body string, more map[string]string) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for name, value := range more {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// known waits until the node at base has heard from the origin of a key, before which it
// answers 500, and fails the test where the key is refused.
func known(t *testing.T, base, key string) {
	t.Helper()
	status := 0
	await(t, "the node to hear of a key", func() bool {
		status, _ = request(t, "GET", base+"/api/v2/public/agents/me", key, "")
		return status != http.StatusInternalServerError
	})
	if status != http.StatusOK {
		t.Fatalf("a key that the origin has: %d", status)
	}
}

// subscribed makes a subscription at the node at base and returns the answer. While that is
// 500, as it is where the origin is slow, it asks again for the same one.
func subscribed(t *testing.T, base, key, body string) (answer []byte) {
	t.Helper()
	status, same := 0, map[string]string{"Idempotency-Key": rand.Text()}
	await(t, "a subscription", func() bool {
		status, answer = requestWith(t, "POST", base+"/api/v2/public/webhooks/subscribe", key, body, same)
		return status != http.StatusInternalServerError
	})
	if status != http.StatusCreated {
		t.Fatalf("subscribing: %d %s", status, answer)
	}
	return answer
}

func leadIDs(t *testing.T, admin *adminapi.Client, account string) (ids []string) {
	t.Helper()
	var page struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if err := admin.Call(t.Context(), "GET", "/accounts/"+account+"/leads?limit=200", nil, &page); err != nil {
		t.Fatal(err)
	}
	for _, l := range page.Items {
		ids = append(ids, l.ID)
	}
	return ids
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
