package node

import (
	"encoding/json"
	"testing"
	"time"
)

// sendOnce posts a lead with an idempotency key; id is "" when it was refused.
func sendOnce(t *testing.T, n *Node, key, once, body string) (status int, id string) {
	t.Helper()
	a := askOnce(t, n, newLead, key, once, body)
	var got struct{ Lead struct{ ID string } }
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return a.status, got.Lead.ID
}

// A lead that is sent again is the first one: after it was handed over, after a
// restart, and at a node that knows nothing of it.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
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
	eventually(t, "it is handed over", func() bool { return n.store.Outbox.Len() == 0 })
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
	eventually(t, "it is handed over again", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.leads[first] == 2 // the origin keeps it once
	})
	if status, id := sendOnce(t, n, key, "b", someLead); status != 201 || id == first {
		t.Errorf("another key: %d %s", status, id)
	}
}
