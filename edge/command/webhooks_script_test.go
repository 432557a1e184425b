package command

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"partneredge/edge/webhook/secrets"
	"partneredge/edge/webhook/signature"
	"partneredge/store"
	"partneredge/store/central"
)

// scriptSubscribe is `subscribe DIR TARGET ID`: makes the database of an edge
// origin over DIR, before it runs, with a live account that has one subscription,
// to firings, and sets ACCOUNT to it.
func scriptSubscribe(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	db := scriptDatabase(ctx, ts, args[0])
	defer func() { ts.Check(db.Close()) }()
	a, err := db.CreateAccount(ctx, store.Account{Name: "Harbor", Mode: store.ModeLive, Agent: store.Agent{Email: "ana@example.com", FullName: "Ana"}})
	ts.Check(err)
	ts.Check(db.AddSubscription(ctx, store.Subscription{
		ID: args[2], AccountID: a.ID, KeyID: "key_1", Environment: store.Live, TargetURL: args[1],
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("5e", 32),
	}))
	ts.Setenv("ACCOUNT", a.ID)
}

// scriptDatabase opens the database of an edge origin over a directory, before it
// runs.
func scriptDatabase(ctx context.Context, ts *testscript.TestScript, name string) *central.DB {
	dir := ts.MkAbs(name)
	ts.Check(os.MkdirAll(dir, 0o700))
	keys, err := secrets.Load(filepath.Join(dir, "secrets.keys"))
	ts.Check(err)
	db, err := central.Open(ctx, central.Config{URL: filepath.Join(dir, "origin.db"), Secrets: keys})
	ts.Check(err)
	return db
}

// scriptRefuse is `refuse DIR BODY…`: has leads handed over that are refused, at an
// edge origin over DIR, before it runs.
func scriptRefuse(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	db := scriptDatabase(ctx, ts, args[0])
	defer func() { ts.Check(db.Close()) }()
	for _, body := range args[1:] {
		done, err := db.AddLeads(ctx, "node_cli", []central.OfferedLead{central.ReadLead("", []byte(body))})
		ts.Check(err)
		if len(done.Quarantined) != 1 {
			ts.Fatalf("%s is not refused", body)
		}
	}
}

// scriptFireUntil is `fire-until DIR ACCOUNT FILE TEXT [FILE…]`: feeds firings to
// the account until the first file holds the text and the others something.
func scriptFireUntil(ts *testscript.TestScript, _ bool, args []string) {
	admin, err := localClient(ts.MkAbs(args[0]))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		ts.Check(admin.Call(ctx, http.MethodPost, "/accounts/"+args[1]+"/sentinel-firings",
			map[string]any{"sentinel_name": "s", "trigger_data": map[string]any{}, "action_taken": "a"}, nil))
		<-again.C
		done := true
		for i, name := range append(args[2:3:3], args[4:]...) {
			text, _ := os.ReadFile(ts.MkAbs(name))
			done = done && len(text) > 0 && (i > 0 || bytes.Contains(text, []byte(args[3])))
		}
		if done {
			return
		}
	}
	ts.Fatalf("%s never came to hold %s", args[2], args[3])
}

// scriptReceive is `receive FILE STATUS`: sets RECEIVER to a server that answers
// with the status and keeps the requests in the file, header and body.
func scriptReceive(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	var mu sync.Mutex
	file := ts.MkAbs(args[0])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var b bytes.Buffer
		b.WriteString(r.Method + " " + r.URL.Path + "\n")
		_ = r.Header.Write(&b)
		b.WriteString("\n")
		b.Write(body)
		if os.WriteFile(file+".new", b.Bytes(), 0o600) == nil {
			_ = os.Rename(file+".new", file)
		}
		w.WriteHeader(status)
	}))
	ts.Defer(server.Close)
	ts.Setenv("RECEIVER", server.URL)
}

// scriptSigned is `signed FILE SAID`: the request of the file has the headers of
// a delivery, and is signed with the secret that SAID names; `! signed FILE SAID`: it
// is not, or was too long ago.
func scriptSigned(ts *testscript.TestScript, not bool, args []string) {
	head, body, _ := strings.Cut(ts.ReadFile(args[0]), "\n\n")
	header := map[string]string{}
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header[name] = value
	}
	_, secret, _ := strings.Cut(ts.ReadFile(args[1]), "signing secret: ")
	secret, _, _ = strings.Cut(secret, "\n")
	err := signature.Verify(header[signature.Header], []byte(body), signature.DefaultTolerance, time.Now(), secret)
	if not && err == nil {
		ts.Fatalf("signed as of now: %s", head)
	}
	if !not {
		ts.Check(err)
	}
	for _, name := range []string{"X-Svc-Timestamp", "X-Svc-Event", "X-Svc-Event-Id", "X-Svc-Delivery-Id", "Content-Type"} {
		if header[name] == "" {
			ts.Fatalf("no %s in %s", name, head)
		}
	}
	if !strings.Contains(body, `"id":"`+header["X-Svc-Event-Id"]+`"`) || !strings.HasPrefix(header[signature.Header], "t="+header["X-Svc-Timestamp"]+",") {
		ts.Fatalf("header and body do not agree: %s %s", head, body)
	}
}
