package origin

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/wire"
)

// counted is a node's count of n answers, of which each took d.
func counted(n uint64, d time.Duration) wire.Traffic {
	t := wire.Traffic{Requests: n, Errors: n / 10, Limited: n / 5, Latency: make([]uint64, wire.LatencyBuckets)}
	t.Latency[wire.LatencyBucket(d)] = n
	return t
}

func adminTraffic(f *fixture) {
	m := f.enrol("charted")
	for _, n := range []uint64{5, 25} {
		sum := counted(n, time.Millisecond)
		body, err := json.Marshal(wire.Status{Head: head, Region: "eu-west", Outbox: 3, Traffic: &sum})
		if err != nil {
			f.Fatal(err)
		}
		if err := m.conn.Publish(wire.Subject(m.id, wire.VerbStatus), body); err != nil {
			f.Fatal(err)
		}
	}
	f.eventually("the region's requests are counted", func() bool {
		for _, r := range f.must(200, "GET", "/admin/v1/traffic", nil)["regions"].([]any) {
			region := r.(object)
			total := 0.0
			for _, p := range region["points"].([]any) {
				total += p.(object)["requests"].(float64)
			}
			if region["region"] == "eu-west" && total == 20 && region["outbox"] == 3.0 && region["connected"].(float64) >= 1 {
				return true
			}
		}
		return false
	})
	v := f.must(200, "GET", "/admin/v1/outcomes", nil)
	if v["most"].(float64) != 10_000 || v["since"] == nil {
		f.Errorf("outcomes %v", v)
	}
}

// TestLeadsWaitingAtNodesThatAreAway: a region's leads wait on the disks of its nodes also while
// these are away, when it matters most.
func TestLeadsWaitingAtNodesThatAreAway(t *testing.T) {
	t.Parallel()
	var late atomic.Int64 // of the origin's clock, a time.Duration
	began := time.Now()
	f := newFixture(t, func(c *Config) { c.Now = func() time.Time { return began.Add(time.Duration(late.Load())) } })
	n := f.enrol("away")
	body, err := json.Marshal(wire.Status{Head: head, Region: "eu-west", Outbox: 40})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.conn.Publish(wire.Subject(n.id, wire.VerbStatus), body); err != nil {
		t.Fatal(err)
	}
	region := func() object {
		return f.must(200, "GET", "/admin/v1/traffic", nil)["regions"].([]any)[0].(object)
	}
	f.eventually("the node's status is there", func() bool { return region()["connected"] == 1.0 })
	late.Store(int64(time.Minute))
	if r := region(); r["connected"] != 0.0 || r["nodes"] != 1.0 || r["outbox"] != 40.0 {
		t.Errorf("of the region whose node is away it says %v", r)
	}
}
