package replication

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/fleet"
)

// TestPostponedHeartbeats: what was skipped is due in the next round, and nothing else is.
func TestPostponedHeartbeats(t *testing.T) {
	now := time.Now()
	p := &Presence{nodes: map[string]store.Node{}, beats: newHeartbeats()}
	due := func() (ids []string) {
		for _, n := range p.unwritten() {
			ids = append(ids, n.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for _, id := range []string{"a", "b"} {
		p.nodes[id] = store.Node{ID: id}
		p.beats.put(heartbeat{node: id, at: now})
	}
	if got := due(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("due are %v", got)
	}
	p.postpone([]fleet.NodeSeen{{ID: "b"}, {ID: "gone"}})
	if got := due(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after b was skipped %v are due", got)
	}
	if got := due(); len(got) > 0 {
		t.Errorf("once all are written %v are due", got)
	}
}

// TestPutIntoReadNodes: a node that is added does not change what was read before, which a
// refresh still goes through without the lock.
func TestPutIntoReadNodes(t *testing.T) {
	p := &Presence{beats: newHeartbeats()}
	read := map[string]store.Node{"a": {ID: "a"}}
	p.replace(read)
	p.Put(store.Node{ID: "b"})
	if len(read) != 1 || len(p.nodes) != 2 {
		t.Errorf("what was read has %d nodes, want 1; presence has %d, want 2", len(read), len(p.nodes))
	}
}

// TestFormAtStart: the long form is pushed at first where nodes are enrolled.
func TestFormAtStart(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cfg := Config{DB: db, Now: time.Now, Revoke: func(context.Context, map[string]time.Time) error { return nil }}
	for _, long := range []bool{false, true} {
		p, err := newPresence(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.long(); got != long {
			t.Errorf("with a node: %v; the long form is %v", long, got)
		}
		if _, err := db.AddNode(t.Context(), store.Node{ID: "node_1", Name: "n1", PublicKey: "UABC"}); err != nil && !long {
			t.Fatal(err)
		}
	}
}

// TestFormOfChanges: changes are pushed in short form once every node that does not read it
// had the time to be heard, and none was for long.
func TestFormOfChanges(t *testing.T) {
	now := time.Now()
	p := &Presence{
		cfg:   Config{Now: func() time.Time { return now }, ObserveRefusal: func(string, string, int) {}},
		nodes: map[string]store.Node{"revoked": {ID: "revoked", RevokedAt: now}},
		beats: newHeartbeats(), traffic: newTraffic(),
	}
	expect := func(when string, long bool) {
		t.Helper()
		if got := p.long(); got != long {
			t.Errorf("%s: the long form is %v, want %v", when, got, long)
		}
	}
	p.begin()
	expect("no node is enrolled", false)
	p.nodes["old"] = store.Node{ID: "old"}
	p.begin()
	expect("a node is, and was not heard yet", true)
	p.receive("new", wire.Status{ShortChanges: true})
	expect("another reads it", true)
	now = now.Add(longAtStart - 1)
	expect("the first may still be heard", true)
	now = now.Add(1)
	expect("nobody older was heard", false)
	p.receive("old", wire.Status{})
	if !p.long() {
		t.Error("it does not change at once when one is heard")
	}
	for range 3 { // its status is late, and comes
		now = now.Add(4 * HeartbeatTimeout)
		p.receive("new", wire.Status{ShortChanges: true})
		expect("it is away for a while", true)
		p.receive("old", wire.Status{})
		expect("it is there", true)
	}
	p.receive("old", wire.Status{ShortChanges: true})
	now = now.Add(longAfter)
	expect("it has been upgraded", false)
}
