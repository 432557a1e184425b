package replication

import (
	"slices"
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

// TestTrafficOfAnOutage: steps that no node told of are not those of an idle region, and what
// its nodes answered meanwhile is no peak when they are heard again.
func TestTrafficOfAnOutage(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	traffic := newTraffic()
	for i, n := range []uint64{1000, 1010, 1010, 9000, 9010, 4} { // the last has started anew
		if i == 3 {
			now = now.Add(10 * TrafficEvery)
		}
		if i == 5 {
			now = now.Add(trafficApart)
		}
		traffic.add("a", "eu", counted(n, time.Millisecond), now)
		now = now.Add(TrafficEvery)
	}
	var heard []uint64
	points := traffic.steps("eu", now)
	for i, p := range points[len(points)-18:] {
		if p.Heard {
			heard = append(heard, uint64(i), p.Requests)
		} else if p.Requests != 0 || p.P99 != nil {
			t.Errorf("of a step that no node told of %+v is known", p)
		}
	}
	// Steps, each with its requests. The first message, and the first after the outage and after
	// the pause before the last, only say where to count from.
	if want := []uint64{1, 10, 2, 0, 14, 10}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
