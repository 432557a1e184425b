package replication

import (
	"slices"
	"testing"
	"time"

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
