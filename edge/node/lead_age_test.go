package node

import (
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
	"partneredge/wasm/typeid"
)

// TestAgeOfLeads: a lead that waits is as old as the time since it was accepted, also one with
// an Idempotency-Key, whose id has midnight.
func TestAgeOfLeads(t *testing.T) {
	t.Parallel()
	for _, once := range []string{"", "a"} {
		o := newOrigin(t)
		key := o.addKey("key_1", nil)
		o.do(func() { o.mute[wire.VerbLeads] = true })
		c := config(t, o)
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		c.Now = func() time.Time { return now }
		n := startNode(t, c)
		if status, id := sendOnce(t, n, key, once, someLead); status != 201 {
			t.Fatalf("%d %s", status, id)
		}
		if age := oldest(n.store, now.Add(7*time.Second)); age != 7*time.Second {
			t.Errorf("Idempotency-Key %q: %v old after 7 s", once, age)
		}
	}
}

// TestAgeOfUnreadLeads: where a lead's body cannot be read, its id tells how old it is.
func TestAgeOfUnreadLeads(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for id, want := range map[string]time.Duration{
		typeid.Make("lead", now.Add(-time.Minute).UnixMilli(), [10]byte{}): time.Minute,
		typeid.Make("lead", now.Add(time.Minute).UnixMilli(), [10]byte{}):  0, // the clock was put back
		"line_1": 0,
	} {
		store := must(local.Open(local.Config{Dir: t.TempDir()}))(t)
		t.Cleanup(func() { _ = store.Close() })
		if age := oldest(store, now); age != 0 {
			t.Errorf("%v old while none waits", age)
		}
		if err := store.Outbox.Append(t.Context(), outbox.Item{ID: id, Body: []byte("{")}); err != nil {
			t.Fatal(err)
		}
		if age := oldest(store, now); age != want {
			t.Errorf("%s is %v old, want %v", id, age, want)
		}
	}
}
