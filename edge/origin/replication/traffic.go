package replication

import (
	"sync"
	"time"

	"partneredge/edge/wire"
)

// Nodes send a status every two seconds, so each step holds the same number of
// them.
const (
	// TrafficEvery is the duration of a step of traffic.
	TrafficEvery = 4 * time.Second
	trafficSlots = 75 // five minutes
	// trafficApart is how long after a node's last message the next still counts.
	trafficApart = 2 * TrafficEvery
)

// TrafficStep counts the answers of a region's nodes in TrafficEvery.
type TrafficStep struct {
	At                        time.Time // when the step began
	Heard                     bool      // a node told of it; otherwise the counts are not known
	Requests, Errors, Limited uint64
	P50, P99                  *float64 // milliseconds; nil without requests
}

// traffic holds what the nodes of each region have answered lately, from their
// status messages. Every origin process receives all of them.
type traffic struct {
	mu      sync.Mutex
	last    map[string]lastTraffic // by node
	regions map[string]*[trafficSlots]trafficSlot
}

func newTraffic() *traffic {
	return &traffic{last: make(map[string]lastTraffic), regions: make(map[string]*[trafficSlots]trafficSlot)}
}

// lastTraffic holds the counts of a node's last message, and when it came.
type lastTraffic struct {
	wire.Traffic
	at time.Time
}

// trafficSlot is one step of one region.
type trafficSlot struct {
	step                      int64 // time divided by TrafficEvery: a slot is used again after trafficSlots steps
	requests, errors, limited uint64
	latency                   [wire.LatencyBuckets]uint64
}

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(TrafficEvery) }

// add counts what a node has answered since its last message. The first message
// only says where to count from, and so does one that comes long after the last: what
// was answered in an outage is of many steps, and would be a peak in one. A node that
// counts less than before has started anew.
func (t *traffic) add(node, region string, now wire.Traffic, at time.Time) {
	if len(now.Latency) != wire.LatencyBuckets {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.last[node]
	t.last[node] = lastTraffic{now, at}
	if !known || at.Sub(last.at) > trafficApart {
		return
	}
	rise := wire.ReleaseCounts{Traffic: now}.Minus(wire.ReleaseCounts{Traffic: last.Traffic})
	if t.regions[region] == nil {
		t.regions[region] = new([trafficSlots]trafficSlot)
	}
	step := stepOf(at)
	slot := &t.regions[region][step%trafficSlots]
	if slot.step != step {
		*slot = trafficSlot{step: step}
	}
	slot.requests += rise.Requests
	slot.errors += rise.Errors
	slot.limited += rise.Limited
	for i := range slot.latency {
		slot.latency[i] += rise.Latency[i]
	}
}

// steps of a region, oldest first, up to the last one that is over.
func (t *traffic) steps(region string, now time.Time) []TrafficStep {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := stepOf(now)
	steps := make([]TrafficStep, 0, trafficSlots-1)
	for step := end - trafficSlots + 1; step < end; step++ {
		s := TrafficStep{At: time.Unix(0, step*int64(TrafficEvery))}
		if ring := t.regions[region]; ring != nil && ring[step%trafficSlots].step == step {
			slot := &ring[step%trafficSlots]
			s.Heard = true
			s.Requests, s.Errors, s.Limited = slot.requests, slot.errors, slot.limited
			s.P50, s.P99 = quantile(&slot.latency, .5), quantile(&slot.latency, .99)
		}
		steps = append(steps, s)
	}
	return steps
}

// quantile of a histogram in milliseconds, straight between the bounds of the
// bucket that it falls into; nil when the histogram is empty.
func quantile(h *[wire.LatencyBuckets]uint64, q float64) *float64 {
	var total uint64
	for _, n := range h {
		total += n
	}
	if total == 0 {
		return nil
	}
	rank, below := q*float64(total), 0.0
	for i, n := range h {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		var from time.Duration
		if i > 0 {
			from = wire.LatencyBound(i - 1)
		}
		to := wire.LatencyBound(i)
		ms := (float64(from) + float64(to-from)*(rank-below)/float64(n)) / float64(time.Millisecond)
		return &ms
	}
	return nil
}
