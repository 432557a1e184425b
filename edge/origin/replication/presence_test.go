package replication

import (
	"slices"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
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

// TestFormOfChanges: changes are pushed in short form unless a node that is connected does
// not read it.
func TestFormOfChanges(t *testing.T) {
	now := time.Now()
	p := &Presence{
		cfg: Config{Now: func() time.Time { return now }, ObserveRefusal: func(string, string, int) {}}, nodes: map[string]store.Node{},
		beats: newHeartbeats(), traffic: newTraffic(),
	}
	expect := func(when string, long bool) {
		t.Helper()
		if got := p.long.Load(); got != long {
			t.Errorf("%s: the long form is %v, want %v", when, got, long)
		}
	}
	expect("nobody is known", false)
	p.receive("new", wire.Status{ShortChanges: true})
	expect("a node reads it", false)
	p.receive("old", wire.Status{})
	expect("a node does not", true)
	p.receive("new", wire.Status{ShortChanges: true})
	p.chooseForm()
	expect("it is still there", true)
	now = now.Add(heartbeatTimeout)
	p.receive("new", wire.Status{ShortChanges: true})
	p.chooseForm()
	expect("it is away", false)
	p.receive("old", wire.Status{})
	p.receive("old", wire.Status{ShortChanges: true})
	p.chooseForm()
	expect("it has been upgraded", false)
}
