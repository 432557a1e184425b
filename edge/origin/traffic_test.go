package origin

import (
	"encoding/json"
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

func TestTrafficSteps(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	traffic := newTraffic()
	traffic.hear("a", "eu", counted(1000, time.Millisecond), now) // from before: not counted
	traffic.hear("a", "eu", counted(1010, time.Millisecond), now)
	traffic.hear("b", "eu", counted(50, time.Millisecond), now)
	traffic.hear("b", "eu", counted(60, time.Millisecond), now)
	traffic.hear("a", "eu", counted(1020, time.Millisecond), now.Add(trafficStep))
	traffic.hear("a", "eu", counted(7, time.Millisecond), now.Add(trafficStep)) // started anew
	traffic.hear("a", "eu", wire.Traffic{Requests: 1 << 60}, now.Add(trafficStep))

	points := traffic.points("eu", now.Add(2*trafficStep))
	if len(points) != trafficSteps-1 {
		t.Fatalf("%d points", len(points))
	}
	first, second := points[len(points)-2], points[len(points)-1]
	if first.Requests != 20 || first.Errors != 2 || first.Limited != 4 || second.Requests != 17 {
		t.Errorf("%+v, %+v", first, second)
	}
	low, high := ms(wire.LatencyBound(wire.LatencyBucket(time.Millisecond)-1)), ms(wire.LatencyBound(wire.LatencyBucket(time.Millisecond)))
	if *first.P50 < low || *first.P99 > high || *first.P50 > *first.P99 {
		t.Errorf("p50 %v, p99 %v, want between %v and %v", *first.P50, *first.P99, low, high)
	}
	if points[0].Requests != 0 || points[0].P50 != nil {
		t.Errorf("the oldest is %+v", points[0])
	}
	for _, p := range traffic.points("eu", now.Add(trafficSteps*trafficStep+2*trafficStep)) {
		if p.Requests != 0 {
			t.Errorf("a round later there is still %+v", p)
		}
	}
	if len(traffic.points("nowhere", now)) != trafficSteps-1 {
		t.Error("an unknown region has no empty points")
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func adminTraffic(w *world) {
	m := w.enrol("charted")
	for _, n := range []uint64{5, 25} {
		sum := counted(n, time.Millisecond)
		body, err := json.Marshal(wire.Status{Head: head, Region: "eu-west", Outbox: 3, Traffic: &sum})
		if err != nil {
			w.Fatal(err)
		}
		if err := m.conn.Publish(wire.Subject(m.id, wire.VerbStatus), body); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually("the region's requests are counted", func() bool {
		for _, r := range w.must(200, "GET", "/admin/v1/traffic", nil)["regions"].([]any) {
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
	v := w.must(200, "GET", "/admin/v1/outcomes", nil)
	if v["most"].(float64) != 10_000 || v["since"] == nil {
		w.Errorf("outcomes %v", v)
	}
}
