package replication

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestChangedTellsAll follows what a Presence says has changed: whatever is heard, whoever
// is enrolled or revoked, and wherever the clock goes, who follows knows what a look at
// all nodes shows.
func TestChangedTellsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		p := &Presence{
			cfg:   Config{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, ObserveRefusal: func(string, string, int) {}},
			nodes: map[string]store.Node{}, beats: newHeartbeats(), traffic: newTraffic(),
		}
		follower := p.Follow()
		followed := map[string]Report{}
		node := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("node_", rapid.IntRange(0, 5).Draw(t, "n")) })
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			id := node.Draw(t, "node")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				p.receive(id, wire.Status{Build: rapid.StringN(1, 1, 1).Draw(t, "build")})
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "seconds")) * time.Second)
			case 3:
				p.Put(store.Node{ID: id, Region: "eu"})
			case 4:
				p.Put(store.Node{ID: id, Region: "eu", RevokedAt: now})
			case 5: // a refresh finds another origin's enrolments and revocations
				nodes := maps.Clone(p.nodes)
				if rapid.Bool().Draw(t, "gone") {
					delete(nodes, id)
				} else {
					nodes[id] = store.Node{ID: id, Region: rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")}
				}
				p.replace(nodes)
			}
			if rapid.Bool().Draw(t, "later") {
				continue
			}
			for _, c := range follower.Changed() {
				if delete(followed, c.ID); c.Enrolled {
					followed[c.ID] = c.Report
				}
			}
			if all := p.Enrolled(); !reflect.DeepEqual(followed, all) {
				t.Fatalf("who follows knows %+v, a full look shows %+v", followed, all)
			}
			if again := follower.Changed(); len(again) != 0 {
				t.Fatalf("%d nodes have changed although nothing happened", len(again))
			}
		}
	})
}
