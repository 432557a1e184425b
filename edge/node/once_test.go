package node

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"partneredge/wasm/abi"
)

// sendOnce posts a lead with an idempotency key; id is "" when it was refused.
func sendOnce(t *testing.T, n *Node, key, once, body string) (status int, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", n.URL()+newLead, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Idempotency-Key", once)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Lead struct{ ID string } }
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return resp.StatusCode, got.Lead.ID
}

// A lead that is sent again is the first one: after it was handed over, after a
// restart, and at a node that knows nothing of it.
func TestIdempotencyKey(t *testing.T) {
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // far from midnight
	c.Now = func() time.Time { return now }
	n := startNode(t, c)
	status, first := sendOnce(t, n, key, "a", someLead)
	if status != 201 || first == "" {
		t.Fatalf("the first: %d %s", status, first)
	}
	again := func(when string) {
		t.Helper()
		if status, id := sendOnce(t, n, key, "a", someLead); status != 201 || id != first {
			t.Errorf("%s: %d %s, want %s", when, status, id, first)
		}
	}
	again("at once")
	soon(t, "it is handed over", func() bool { return n.store.Outbox.Len() == 0 })
	again("after it was handed over")
	if status, _ := sendOnce(t, n, key, "a", `{"name":"Bo","phone":"5550100"}`); status != 409 {
		t.Errorf("another body: %d", status)
	}
	stopNode(t, n)
	n = startNode(t, c)
	again("after a restart")

	stopNode(t, n)
	c.Data = t.TempDir()
	n = startNode(t, c)
	again("at another node")
	soon(t, "it is handed over again", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.leads[first] == 2 // the origin keeps it once
	})
	if status, id := sendOnce(t, n, key, "b", someLead); status != 201 || id == first {
		t.Errorf("another key: %d %s", status, id)
	}
}

func TestOnceID(t *testing.T) {
	once := abi.Once{Key: "a", Digest: "d"}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	id := onceID("key_1", &once, at)
	if got := onceID("key_1", &once, at.Add(24*time.Hour-1)); got != id {
		t.Errorf("%s later that day, %s before", got, id)
	}
	seen := map[string]bool{id: true}
	for _, other := range []string{
		onceID("key_1", &once, at.Add(24*time.Hour)),
		onceID("key_2", &once, at),
		onceID("key_1", &abi.Once{Key: "b", Digest: "d"}, at),
		onceID("key_1", &abi.Once{Key: "a", Digest: "e"}, at),
		onceID("key_1", &abi.Once{Key: "ad"}, at),
	} {
		if seen[other] {
			t.Errorf("%s names two requests", other)
		}
		seen[other] = true
	}
}

// What is written down between a lead and its answer may be lost: the lead, sent
// again, is the one that waits.
func TestOnceAfterItsMemoryWasLost(t *testing.T) {
	o := newOrigin(t)
	o.do(func() { o.mute["leads"] = true })
	n := startNode(t, config(t, o))
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive}
	once := abi.Once{Key: "a", Digest: "d", Lead: abi.Lead{ID: "lead_x", FirstName: "x", Phone: "5550100", Created: 1}}
	lost := once.Lead
	lost.ID, lost.Created = onceID(p.KeyID, &once, time.Now()), 2
	if err := n.leads.AppendLead(t.Context(), p, lost.Append(nil)); err != nil {
		t.Fatal(err)
	}
	kept, err := n.leads.LeadOnce(t.Context(), p, &once)
	if err != nil || kept.Outcome != abi.New || kept.ID != lost.ID || n.store.Outbox.Len() != 1 {
		t.Errorf("%+v, %v, %d wait", kept, err, n.store.Outbox.Len())
	}
	p.Environment = abi.EnvTest
	once.Key = "b"
	if kept, err := n.leads.LeadOnce(t.Context(), p, &once); err != nil || kept.Outcome != abi.New || n.store.Outbox.Len() != 1 {
		t.Errorf("a test key's: %+v, %v, %d wait", kept, err, n.store.Outbox.Len())
	}
}
