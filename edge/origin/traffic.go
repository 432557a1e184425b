package origin

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// What is remembered of the regions' traffic. Nodes speak every two seconds, so
// that a step takes in the same number of them each time.
const (
	trafficStep  = 4 * time.Second
	trafficSteps = 75 // five minutes
)

// traffic is what the nodes of each region have answered lately, from their
// status messages. Every origin process hears all of them.
type traffic struct {
	mu      sync.Mutex
	last    map[string]wire.Traffic // by node
	regions map[string]*[trafficSteps]trafficSlot
}

func newTraffic() *traffic {
	return &traffic{last: make(map[string]wire.Traffic), regions: make(map[string]*[trafficSteps]trafficSlot)}
}

// trafficSlot is one step of one region.
type trafficSlot struct {
	step                      int64 // time divided by trafficStep; tells which round of the ring it is of
	requests, errors, limited uint64
	latency                   [wire.LatencyBuckets]uint64
}

func stepOf(t time.Time) int64 { return t.UnixNano() / int64(trafficStep) }

// hear takes in what a node has counted since it started. From the first message
// nothing can be told but where to count from; a node that counts less than
// before has started anew.
func (t *traffic) hear(node, region string, now wire.Traffic, at time.Time) {
	if len(now.Latency) != wire.LatencyBuckets {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.last[node]
	t.last[node] = now
	if !known {
		return
	}
	if now.Requests < before.Requests {
		before = wire.Traffic{Latency: make([]uint64, wire.LatencyBuckets)}
	}
	if t.regions[region] == nil {
		t.regions[region] = new([trafficSteps]trafficSlot)
	}
	step := stepOf(at)
	slot := &t.regions[region][step%trafficSteps]
	if slot.step != step {
		*slot = trafficSlot{step: step}
	}
	slot.requests += rise(before.Requests, now.Requests)
	slot.errors += rise(before.Errors, now.Errors)
	slot.limited += rise(before.Limited, now.Limited)
	for i := range slot.latency {
		slot.latency[i] += rise(before.Latency[i], now.Latency[i])
	}
}

// rise is how much a counter grew. One node's counters are not read at one
// instant, so one of them may lag behind the others.
func rise(before, now uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}

// points of a region, oldest first, up to the last step that is over.
func (t *traffic) points(region string, now time.Time) []trafficPoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := stepOf(now)
	points := make([]trafficPoint, 0, trafficSteps-1)
	for step := end - trafficSteps + 1; step < end; step++ {
		p := trafficPoint{At: stamp(time.Unix(0, step*int64(trafficStep)))}
		if ring := t.regions[region]; ring != nil && ring[step%trafficSteps].step == step {
			slot := &ring[step%trafficSteps]
			p.Requests, p.Errors, p.Limited = slot.requests, slot.errors, slot.limited
			p.P50, p.P99 = quantile(&slot.latency, .5), quantile(&slot.latency, .99)
		}
		points = append(points, p)
	}
	return points
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

type trafficView struct {
	StepSeconds  int          `json:"step_seconds"`
	LatestChange int64        `json:"latest_change"`
	Regions      []regionView `json:"regions"`
}

type regionView struct {
	Region        string         `json:"region"`
	Nodes         int            `json:"nodes"`
	Connected     int            `json:"connected"`
	ChangesBehind int64          `json:"changes_behind"` // of the node that lags most
	Outbox        int            `json:"outbox"`
	Points        []trafficPoint `json:"points"`
}

type trafficPoint struct {
	At       stamp    `json:"at"`
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"`
	Limited  uint64   `json:"limited"`
	P50      *float64 `json:"p50_ms"`
	P99      *float64 `json:"p99_ms"`
}

// showTraffic tells how each region does, over the last five minutes.
func (a *admin) showTraffic(r *http.Request) (answer, error) {
	_, latest, _, err := a.db.ChangesSince(r.Context(), 0, 1)
	if err != nil {
		return answer{}, err
	}
	v := trafficView{StepSeconds: int(trafficStep / time.Second), LatestChange: latest, Regions: []regionView{}}
	regions := make(map[string]*regionView)
	for _, n := range a.fleet.enrolled() {
		region := regions[n.Region]
		if region == nil {
			region = &regionView{Region: n.Region}
			regions[n.Region] = region
		}
		region.Nodes++
		if status, _, connected := a.fleet.lastStatus(n.ID); connected {
			region.Connected++
			region.Outbox += status.Outbox
			region.ChangesBehind = max(region.ChangesBehind, latest-status.Seq)
		}
	}
	now := a.now()
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		regions[name].Points = a.fleet.traffic.points(name, now)
		v.Regions = append(v.Regions, *regions[name])
	}
	return ok(v)
}

// enrolled are the nodes that are not revoked.
func (f *fleet) enrolled() (nodes []store.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.RevokedAt.IsZero() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// outcomesOver is how far back showOutcomes looks.
const outcomesOver = time.Hour

// showOutcomes tells what became of the newest deliveries.
func (a *admin) showOutcomes(r *http.Request) (answer, error) {
	since := a.now().Add(-outcomesOver)
	counts, err := a.db.Outcomes(r.Context(), since)
	if err != nil {
		return answer{}, err
	}
	return ok(struct {
		Since     stamp `json:"since"`
		Most      int   `json:"most"`
		Pending   int   `json:"pending"`
		Delivered int   `json:"delivered"`
		Dead      int   `json:"dead"`
		Cancelled int   `json:"cancelled"`
	}{
		stamp(since), central.OutcomesMost, counts[store.StatePending], counts[store.StateDelivered],
		counts[store.StateDead], counts[store.StateCancelled],
	})
}
