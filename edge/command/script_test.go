package command

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"partneredge/store/durable"
)

// scriptAwait is `await FILE [TEXT]`: waits until there is one, with TEXT in it.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	text := []byte(strings.Join(args[1:], " "))
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-again.C {
		if got, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && bytes.Contains(got, text) {
			return
		}
	}
	ts.Fatalf("no %s", strings.Join(args, " with "))
}

// scriptComes is `comes REGEXP PROGRAM ARGUMENT…`: it runs the program again and again until
// a line of its output is as the expression has it.
func scriptComes(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-again.C {
		if err := ts.Exec(args[1], args[2:]...); err == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("no output of %s matches %s", strings.Join(args[1:], " "), wanted)
}

func scriptReady(ts *testscript.TestScript, file string) (info devReady) {
	ts.Check(durable.ReadJSON(ts.MkAbs(file), &info))
	return info
}

// scriptShape is `shape FILE REGION…`: the file is a dev.json with exactly its
// fields, none of them empty, and nodes in these regions.
func scriptShape(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var got struct {
		Origin    map[string]string   `json:"origin"`
		Nodes     []map[string]string `json:"nodes"`
		AccountID string              `json:"account_id"`
		Keys      map[string]string   `json:"keys"`
	}
	ts.Check(d.Decode(&got))
	has := func(m map[string]string, names ...string) {
		if len(m) != len(names) {
			ts.Fatalf("%v, want %v", m, names)
		}
		for _, name := range names {
			if m[name] == "" {
				ts.Fatalf("no %s in %v", name, m)
			}
		}
	}
	has(got.Origin, "admin_url", "admin_token", "console_url", "nats_url")
	has(got.Keys, "live", "test")
	if got.AccountID == "" || len(got.Nodes) != len(args)-1 {
		ts.Fatalf("%s", text)
	}
	for i, n := range got.Nodes {
		has(n, "region", "base_url", "metrics_url")
		if n["region"] != args[i+1] {
			ts.Fatalf("region %s, want %s", n["region"], args[i+1])
		}
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if info.Mode().Perm() != 0o600 {
		ts.Fatalf("%s has mode %v", args[0], info.Mode())
	}
}

// scriptAsk is `ask FILE NODE live|test|none PATH STATUS`: a GET to a node of
// dev.json, with one of its keys. It asks again while the answer is 500, as it is where the
// origin is slow to tell the node of a key.
func scriptAsk(ts *testscript.TestScript, _ bool, args []string) {
	info := scriptReady(ts, args[0])
	i, err := strconv.Atoi(args[1])
	ts.Check(err)
	req, err := http.NewRequest(http.MethodGet, info.Nodes[i].BaseURL+args[3], nil)
	ts.Check(err)
	if key := map[string]string{"live": info.Keys.Live, "test": info.Keys.Test}[args[2]]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-again.C {
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		resp.Body.Close()
		switch got := strconv.Itoa(resp.StatusCode); {
		case got == args[4]:
			return
		case resp.StatusCode != http.StatusInternalServerError || time.Now().After(deadline):
			ts.Fatalf("GET %s: %s, want %s", args[3], got, args[4])
		}
	}
}

// scriptLockOut is `lock-out FILE NODE`: asks a node of dev.json with made-up keys until it
// refuses this address.
func scriptLockOut(ts *testscript.TestScript, _ bool, args []string) {
	i, err := strconv.Atoi(args[1])
	ts.Check(err)
	for range 100 {
		req, err := http.NewRequest(http.MethodGet, scriptReady(ts, args[0]).Nodes[i].BaseURL+"/api/v2/public/agents/me", nil)
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer svc_live_made_up")
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		resp.Body.Close()
		if resp.StatusCode == http.StatusForbidden {
			return
		}
	}
	ts.Fatalf("100 made-up keys do not lock out")
}

// scriptSameKeys is `same-keys FILE FILE`: two dev.json with one account.
func scriptSameKeys(ts *testscript.TestScript, _ bool, args []string) {
	a, b := scriptReady(ts, args[0]), scriptReady(ts, args[1])
	if a.AccountID != b.AccountID || a.Keys != b.Keys || a.Origin.AdminToken != b.Origin.AdminToken {
		ts.Fatalf("another account or other keys")
	}
}

// scriptListen is `listen HOST`: takes a free port until the script ends, and
// sets TAKEN to it.
func scriptListen(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", net.JoinHostPort(args[0], "0"))
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv("TAKEN", port)
}
