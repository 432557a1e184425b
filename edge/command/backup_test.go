package command

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/edge/origin/backup"
)

// sometimes is an endpoint that takes deliveries once up is set.
type sometimes struct {
	url, ca string
	up      atomic.Bool
	conns   atomic.Int64 // that are open
	mu      sync.Mutex
	events  map[string]int // taken, by id
}

func newSometimes(t *testing.T) *sometimes {
	t.Helper()
	s := &sometimes{events: map[string]int{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.up.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events[r.Header.Get("x-svc-event-id")]++
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed:
			s.conns.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url, s.ca = server.URL, filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(s.ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sometimes) took(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[event] > 0
}

// restoredOrigin is an origin that is ended and put back, at one address for its
// nodes.
type restoredOrigin struct {
	*process
	t     *testing.T
	nats  string
	ready originReady
	admin *adminapi.Client
	flags []string
}

func (o *restoredOrigin) start(dir string) {
	o.t.Helper()
	args := append([]string{"origin", "--data", dir, "--admin", "127.0.0.1:0", "--nats-listen", o.nats}, o.flags...)
	o.process = startProcess(o.t, filepath.Join(dir, "origin.json"), &o.ready, args...)
	var err error
	if o.admin, err = localClient(dir); err != nil {
		o.t.Fatal(err)
	}
}

// call the admin API and read the answer's field, "" for none.
func (o *restoredOrigin) call(method, path string, in any, field string) string {
	o.t.Helper()
	out := map[string]any{}
	if err := o.admin.Call(o.t.Context(), method, path, in, &out); err != nil {
		o.t.Fatal(err)
	}
	if field == "" {
		return ""
	}
	value, _ := out[field].(string)
	if value == "" {
		o.t.Fatalf("%s %s: no %s in %v", method, path, field, out)
	}
	return value
}

// inStep waits until a node knows every change of the origin.
func (o *restoredOrigin) inStep(n *regional) {
	o.t.Helper()
	await(o.t, "the node to be in step", func() bool {
		var traffic adminapi.Traffic
		err := o.admin.Call(o.t.Context(), "GET", "/traffic", nil, &traffic)
		return err == nil && n.metric("edge_sync_change") == float64(traffic.LatestChange)
	})
}

// edge runs the program to its end.
func edge(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(testFiles.program(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("edge %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRestoreWithWrongFlags has restore refuse what can be no origin's directory, or no
// backup, and leave all of it as it is.
func TestRestoreWithWrongFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, other, folder := filepath.Join(dir, "backup"), filepath.Join(dir, "other"), filepath.Join(dir, "folder")
	var made bytes.Buffer
	a, err := backup.NewWriter(t.Context(), &made)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	written(t, file, made.Bytes())
	written(t, other, []byte("something else"))
	before, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ from, data, want string }{
		{folder, file, file + " is a file\nhint: --data names the directory to make, --from the backup\n"},
		{file, file, file + " is a file\n"},
		{file, filepath.Join(other, "data"), "not a directory\n"},
		{folder, folder, "this is no whole backup of an origin\n"},
		{other, folder, "this is no whole backup of an origin\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), "test", []string{"restore", "--from", tt.from, "--data", tt.data}, &stdout, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("from %s to %s: exit code %d, %q, want %q", tt.from, tt.data, code, &stderr, tt.want)
		}
		if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, made.Bytes()) {
			t.Fatalf("from %s to %s: the backup is %q, %v", tt.from, tt.data, text, err)
		}
	}
	if after, err := os.Stat(folder); err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder was made anew: %v", err)
	}
}

// TestBackupAndRestore backs an origin up while it is written to, goes on, loses
// it, and puts it back. A node that has followed further than the backup must
// trust nothing that it holds, and must not take the numbers of new changes for
// those it has seen.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	modules, cache := testFiles.get(t)
	dir := t.TempDir()
	hook := newSometimes(t)
	o := &restoredOrigin{t: t, nats: addresstest.Fixed(t), flags: []string{"--webhook-allow", "127.0.0.0/8,::1", "--webhook-ca", hook.ca}}
	first := filepath.Join(dir, "origin")
	o.start(first)
	held, err := dev.OpenAccount(t.Context(), o.admin, filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	account := "/accounts/" + held.AccountID
	credentials, err := dev.Enrol(t.Context(), o.admin, dir, "eu")
	if err != nil {
		t.Fatal(err)
	}
	var n nodeReady
	node := startProcess(t, filepath.Join(dir, "node", "node.json"), &n, "node", "--data", filepath.Join(dir, "node"), "--region", "eu",
		"--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--origin", o.ready.NATSURL, "--credentials", credentials,
		"--modules", modules, "--cache", cache, "--module-cpu", "10s")
	get := func(key string) int {
		status, _ := request(t, "GET", n.BaseURL+"/api/v2/public/agents/me", key, "")
		return status
	}
	send := func(path, body string) {
		t.Helper()
		if status, answer := request(t, "POST", n.BaseURL+"/api/v2/public"+path, held.Keys.Live, body); status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
	}
	for _, key := range []string{held.Keys.Live, held.Keys.Test} {
		known(t, n.BaseURL, key)
	}
	subscribed(t, n.BaseURL, held.Keys.Live, `{"target_url":"`+hook.url+`/hook","events":["client.contacted"]}`)
	contact := func(client string) string {
		return o.call("POST", account+"/contacts", map[string]string{"client_id": client, "channel": "phone"}, "event_id")
	}
	waiting := contact("before")
	send("/leads", `{"name":"Before Backup","phone":"+1 512 555 0123"}`)
	await(t, "a lead before the backup", func() bool { return len(leadIDs(t, o.admin, held.AccountID)) == 1 })

	// The backup, with writes under way.
	file := filepath.Join(dir, "backup")
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writes := 0
	writing.Go(func() {
		for ; ctx.Err() == nil; writes++ {
			in := map[string]any{"sentinel_name": "s", "trigger_data": map[string]int{"n": writes}, "action_taken": "a"}
			if err := o.admin.Call(t.Context(), "POST", account+"/sentinel-firings", in, nil); err != nil {
				t.Errorf("a write while it is backed up: %v", err)
				return
			}
		}
	})
	edge(t, "backup", "--data", first, "--to", file)
	cancel()
	writing.Wait()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v: others can read the keys in it", info, err)
	}

	// Life goes on: the node follows far beyond the backup, and holds a key that is
	// not in it.
	later := makeKey(t, o.admin, held.AccountID, 100).Plaintext
	for i := range 20 {
		o.call("PUT", account+"/goals/g", map[string]string{"pace": []string{"ahead", "behind"}[i%2]}, "")
		o.call("PATCH", account, map[string]string{"name": fmt.Sprintf("Name %d", i)}, "")
	}
	await(t, "the later key", func() bool { return get(later) == http.StatusOK })
	before := metricAt(t, n.MetricsURL, "edge_sync_change")
	send("/leads", `{"name":"After Backup","phone":"+1 512 555 0123"}`)
	await(t, "the leads to be handed over", func() bool { return metricAt(t, n.MetricsURL, "edge_outbox_leads") == 0 })
	acknowledged := leadIDs(t, o.admin, held.AccountID)

	// The loss, and the origin as it was.
	o.kill()
	second := filepath.Join(dir, "restored")
	// Where its name is a link, as to a larger disk, it is restored behind it.
	if err := errors.Join(os.Mkdir(second+"-disk", 0o700), os.Symlink(second+"-disk", second)); err != nil {
		t.Fatal(err)
	}
	edge(t, "restore", "--from", file, "--data", second)
	if at, err := filepath.EvalSymlinks(second); err != nil || filepath.Base(at) != filepath.Base(second)+"-disk" {
		t.Errorf("restored at %s, %v", at, err)
	}
	hook.up.Store(true)
	o.start(second)
	// The first change of the new history: where numbers were given again, it would
	// bear one that the node has seen.
	o.call("POST", "/keys/"+held.TestID+"/revoke", nil, "")
	await(t, "the node to hear of a revocation after the restore", func() bool { return get(held.Keys.Test) == http.StatusUnauthorized })
	await(t, "the node to forget a key that is not in the backup", func() bool { return get(later) == http.StatusUnauthorized })
	known(t, n.BaseURL, held.Keys.Live)
	if after := metricAt(t, n.MetricsURL, "edge_sync_change"); after <= before {
		t.Errorf("the node's change number went from %v to %v", before, after)
	}
	await(t, "the delivery that was waiting when the backup was taken", func() bool { return hook.took(waiting) })
	fresh := contact("after")
	await(t, "a new delivery", func() bool { return hook.took(fresh) })
	send("/leads", `{"name":"Sam Okafor","phone":"+1 512 555 0123"}`)
	await(t, "a new lead, and those from before the loss", func() bool {
		ids := leadIDs(t, o.admin, held.AccountID)
		return len(ids) == 3 && !slices.ContainsFunc(acknowledged, func(id string) bool { return !slices.Contains(ids, id) })
	})
	if len(acknowledged) != 2 {
		t.Errorf("before the loss there were %v", acknowledged)
	}
	var audit struct {
		Items []struct{ Action string }
	}
	if err := o.admin.Call(t.Context(), "GET", "/audit?limit=10", nil, &audit); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(audit.Items); !strings.Contains(text, "database.restore") {
		t.Errorf("audit log: %s", text)
	}

	// Neither a running origin's directory is overwritten, nor half a file read.
	for what, args := range map[string][]string{
		"is not empty":                     {"restore", "--from", file, "--data", second},
		"is no whole backup":               {"restore", "--from", credentials, "--data", filepath.Join(dir, "none")},
		"is of an origin on SQLite":        {"restore", "--from", file, "--data", filepath.Join(dir, "none"), "--database", "postgres://h/d"},
		"is --data the directory of an or": {"backup", "--data", dir, "--to", filepath.Join(dir, "none")},
	} {
		if out, err := exec.Command(testFiles.program(t), args...).CombinedOutput(); err == nil || !strings.Contains(string(out), what) {
			t.Errorf("edge %v: %v\n%s", args, err, out)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if _, statErr := os.Stat(filepath.Join(dir, "none")); err != nil || len(left) > 0 || statErr == nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	node.terminate()
	o.terminate()
}
