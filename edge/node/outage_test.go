package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local/outbox"
	"partneredge/store/logtest"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "Acme"}
	key, revoked := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 10_000 }), o.addKey("key_2", nil)
	var passed secondsPassed
	c := config(t, o)
	c.Now = passed.now
	n := startNode(t, c)
	ask(t, n, "GET", me, key, "").want(t, 200)
	ask(t, n, "GET", me, revoked, "").want(t, 200)

	o.stop()
	eventually(t, "the node notices", func() bool { return !n.link.Up() })
	passed.Add(600)
	eventually(t, "answers say that they are 10 min old", func() bool {
		return len(ask(t, n, "GET", me, key, "").want(t, 200, "Acme").header.Get("Age")) == 3
	})
	ask(t, n, "GET", me, plaintext("key_3"), "").want(t, 500, "internal_error")
	ask(t, n, "GET", insights, key, "").want(t, 500, "internal_error")
	ask(t, n, "POST", webhooks+"subscribe", key, `{"target_url":"https://example.com/h","events":["sentinel.fired"]}`).want(t, 500)
	ask(t, n, "POST", newLead, key, someLead).want(t, 201, `"Jane"`)

	// A restart changes nothing of that.
	stopNode(t, n)
	n = startNode(t, c)
	ask(t, n, "GET", me, key, "").want(t, 200, "Acme")
	if n.store.Outbox.Len() != 1 {
		t.Errorf("%d leads wait", n.store.Outbox.Len())
	}
	if status := readiness(t, n); status != 200 {
		t.Errorf("/readyz while records are trusted: %d", status)
	}
	for range 25 { // a balancer asks again and again, without a key
		ask(t, n, "GET", healthPath, "", "").want(t, 200, "ok")
	}
	passed.Add(3000) // an hour since the origin was heard
	ask(t, n, "GET", me, key, "").want(t, 500)
	if status := readiness(t, n); status != 503 {
		t.Errorf("/readyz when no record is trusted any more: %d", status)
	}
	ask(t, n, "GET", healthPath, "", "").want(t, 503, "unavailable")
	ask(t, n, "POST", healthPath, "", "").want(t, 401, "missing_bearer_token")

	// Back: a key that was revoked meanwhile is never served again.
	o.editKey(revoked, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	o.start()
	eventually(t, "connected again", n.link.Up)
	eventually(t, "revoked", func() bool { return ask(t, n, "GET", me, revoked, "").want(t, 401, "api_key_revoked").status == 401 })
	eventually(t, "/readyz says that it is in step", func() bool { return readiness(t, n) == 200 })
	eventually(t, "an answer is of now", func() bool {
		o.push() // a heartbeat
		return ask(t, n, "GET", me, key, "").want(t, 200).header.Get("Age") == ""
	})
	eventually(t, "the lead is handed over", func() bool { return n.store.Outbox.Len() == 0 })
	o.do(func() {
		if len(o.leads) != 1 {
			t.Errorf("leads at the origin: %v", o.leads)
		}
	})
}

func readiness(t *testing.T, n *Node) int {
	t.Helper()
	resp, err := http.Get(n.MetricsURL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestChangesThatNobodyCanTellAnyMore(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200)
	before := o.requests(wire.VerbKey)
	o.editKey(key, false, func(k *store.Key) { k.Scopes = nil })
	o.editKey(key, false, func(k *store.Key) { k.Label = "x" })
	o.do(func() { o.pruned = int64(len(o.changes)) - 1 })
	o.push()
	eventually(t, "the key is asked for again", func() bool { return ask(t, n, "GET", me, key, "").status == 403 })
	if o.requests(wire.VerbKey) == before {
		t.Error("the key was not asked for")
	}
}

func TestLeads(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 10_000 })
	var log logtest.Buffer
	c := config(t, o)
	c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := startNode(t, c)
	o.do(func() { o.mute[wire.VerbLeads] = true })
	var ids []string
	for range 30 {
		var got struct{ Lead struct{ ID string } }
		if err := json.Unmarshal([]byte(ask(t, n, "POST", newLead, key, someLead).want(t, 201).body), &got); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.Lead.ID)
	}
	o.do(func() {
		o.refuse[ids[3]] = "unknown_account"
		o.refuse[ids[7]] = "" // the origin cannot read it
		o.mute[wire.VerbLeads] = false
	})
	o.failUnanswered()
	eventually(t, "all but one are gone", func() bool { return n.store.Outbox.Len() == 1 })
	o.do(func() {
		if len(o.leads) != 28 {
			t.Errorf("%d leads at the origin, want 28", len(o.leads))
		}
	})
	if left, err := n.store.Outbox.Pending(9, 1<<20, nil); err != nil || left[0].ID != ids[7] {
		t.Errorf("what waits: %v, %v", left, err)
	}
	for _, secret := range []string{"jane@", "Jane", "Doe", key, "Bearer"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q in it", secret)
		}
	}
	if !strings.Contains(log.String(), ids[3]) {
		t.Error("the log does not name the lead that was set aside")
	}
}

// An origin that is connected and says nothing holds up nobody.
func TestMuteOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	c := config(t, o)
	c.ReadOrigin = 10 * time.Second
	n := startNode(t, c)
	eventually(t, "the records are held", func() bool { return ask(t, n, "GET", me, key, "").status == 200 })
	o.do(func() {
		for _, verb := range []string{wire.VerbKey, wire.VerbView, wire.VerbChanges, wire.VerbLeads} {
			o.mute[verb] = true
		}
	})
	eventually(t, "the heartbeat times out", func() bool { return ask(t, n, "GET", me, key, "").want(t, 200).header.Get("Age") != "" })
	asked := o.requests(wire.VerbKey)
	began := time.Now()
	const requests = 60
	for range requests {
		if ask(t, n, "GET", me, key, "").want(t, 200).header.Get("Age") == "" {
			t.Fatal("no Age")
		}
	}
	if took := time.Since(began); took >= requests*c.ReadOrigin {
		t.Errorf("%d requests took %v, as if they waited for the origin", requests, took)
	}
	if o.requests(wire.VerbKey) != asked {
		t.Error("the origin was asked for a key that is held")
	}
	ask(t, n, "GET", me, plaintext("key_2"), "").want(t, 500)

	// It speaks again: what it revoked meanwhile is known before anything else
	// is served.
	o.editKey(key, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	o.do(func() { clear(o.mute) })
	o.push()
	underWay := 0 // a request whose key was judged when the revocation came
	eventually(t, "the key is refused", func() bool {
		a := ask(t, n, "GET", me, key, "")
		if a.status == 200 && a.header.Get("Age") == "" {
			underWay++
		}
		if underWay > 1 {
			t.Fatal("a revoked key is served although the origin is heard")
		}
		return a.status == 401 && strings.Contains(a.body, "api_key_revoked")
	})
}

// TestLeadsDuringAFloodOfLookups: the origin answers no lookup, and more of them wait
// than may be under way. Leads, changes and reports have room of their own.
func TestLeadsDuringAFloodOfLookups(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.do(func() { o.mute[wire.VerbKey] = true })
	n := startNode(t, config(t, o))
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	const lookups = 1000
	for range lookups {
		flood.Go(func() {
			if err := n.link.Ask(ctx, wire.VerbKey, &wire.KeyRequest{}, new(wire.KeyReply)); !errors.Is(err, host.ErrUnavailable) {
				t.Errorf("a lookup without an answer: %v", err)
			}
		})
	}
	eventually(t, "as many lookups as may be under way", func() bool { return o.requests(wire.VerbKey) >= 256 })
	if err := n.store.Outbox.Append(t.Context(), outbox.Item{ID: "lead_1", Body: []byte(`{"id":"lead_1"}`)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lead is handed over", func() bool { return n.store.Outbox.Len() == 0 })
	var missed store.Change
	o.do(func() { missed = o.change(store.ChangeProfile, "acc_1", false) })
	o.push() // not told of the change, so it asks
	eventually(t, "the change is known", func() bool { return n.store.Cursor().Seq == missed.Seq })
	if asked := o.requests(wire.VerbKey); asked != 256 {
		t.Errorf("%d lookups under way, want 256", asked)
	}
}

// TestSetAsideLeadsAreHandedOver: what an older origin refused or could not be sent
// lies in a file of the node's, and a newer origin gets all of it.
func TestSetAsideLeadsAreHandedOver(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.addKey("key_1", nil)
	o.do(func() { o.older, o.refuse["lead_1900"] = true, "time outside the years" })
	c := config(t, o)
	n := startNode(t, c)
	waiting := map[string]string{"lead_1900": `{"id":"lead_1900","captured_at":"1900-01-01T00:00:00Z"}`, "lead_bad": "\x00{", "lead_x": `{"id":"lead_y"}`}
	for id, body := range waiting {
		if err := n.store.Outbox.Append(t.Context(), outbox.Item{ID: id, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "they are set aside", func() bool { return n.store.Outbox.Len() == 0 })
	file := filepath.Join(c.Data, "state", "rejected.jsonl")
	if lines, err := os.ReadFile(file); err != nil || bytes.Count(lines, []byte("\n")) != 3 {
		t.Fatalf("%s, %v", lines, err)
	} else {
		wantAside(t, n, len(lines))
	}
	stopNode(t, n)

	n = startNode(t, c) // the origin is still the older one
	eventually(t, "the node is back in step", func() bool { return readiness(t, n) == 200 })
	stopNode(t, n)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the older origin took nothing: %v", err)
	}

	o.do(func() { o.older = false })
	n = startNode(t, c)
	eventually(t, "the file is gone", func() bool { _, err := os.Stat(file); return errors.Is(err, os.ErrNotExist) })
	wantAside(t, n, 0)
	o.do(func() {
		if !reflect.DeepEqual(o.raws, waiting) {
			t.Errorf("the origin has %q", o.raws)
		}
	})
}

// wantAside holds that a node's metrics give the size of the leads that were set aside.
func wantAside(t *testing.T, n *Node, size int) {
	t.Helper()
	resp, err := http.Get(n.MetricsURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), fmt.Sprintf("\nedge_outbox_aside_bytes %d\n", size)) {
		t.Errorf("of %d bytes that were set aside the metrics say, %v:\n%s", size, err, text)
	}
}
