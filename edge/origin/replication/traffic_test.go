package replication

import (
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
	traffic.add("a", "eu", counted(1000, time.Millisecond), now) // from before: not counted
	traffic.add("a", "eu", counted(1010, time.Millisecond), now)
	traffic.add("b", "eu", counted(50, time.Millisecond), now)
	traffic.add("b", "eu", counted(60, time.Millisecond), now)
	traffic.add("a", "eu", counted(1020, time.Millisecond), now.Add(TrafficEvery))
	traffic.add("a", "eu", counted(7, time.Millisecond), now.Add(TrafficEvery)) // started anew
	traffic.add("a", "eu", wire.Traffic{Requests: 1 << 60}, now.Add(TrafficEvery))

	points := traffic.steps("eu", now.Add(2*TrafficEvery))
	if len(points) != trafficSlots-1 {
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
	for _, p := range traffic.steps("eu", now.Add(trafficSlots*TrafficEvery+2*TrafficEvery)) {
		if p.Requests != 0 {
			t.Errorf("a round later there is still %+v", p)
		}
	}
	if len(traffic.steps("nowhere", now)) != trafficSlots-1 {
		t.Error("an unknown region has no empty points")
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
