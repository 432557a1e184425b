package admin

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/store"
	"partneredge/store/central"
)

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

// showTraffic shows each region's traffic of the last five minutes.
func (a *api) showTraffic(r *http.Request) (answer, error) {
	_, latest, _, err := a.DB.ChangesSince(r.Context(), 0, 1)
	if err != nil {
		return answer{}, err
	}
	v := trafficView{StepSeconds: int(replication.TrafficEvery / time.Second), LatestChange: latest, Regions: []regionView{}}
	regions := make(map[string]*regionView)
	for _, at := range a.Nodes.Enrolled() {
		region := regions[at.Node.Region]
		if region == nil {
			region = &regionView{Region: at.Node.Region}
			regions[at.Node.Region] = region
		}
		region.Nodes++
		if at.Connected {
			region.Connected++
			region.Outbox += at.Status.Outbox
			region.ChangesBehind = max(region.ChangesBehind, latest-at.Status.Seq)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		region := regions[name]
		for _, s := range a.Nodes.Traffic(name) {
			region.Points = append(region.Points, trafficPoint{stamp(s.At), s.Requests, s.Errors, s.Limited, s.P50, s.P99})
		}
		v.Regions = append(v.Regions, *region)
	}
	return ok(v)
}

// outcomesSince is how far back showOutcomes looks.
const outcomesSince = time.Hour

// showOutcomes counts the newest deliveries by state.
func (a *api) showOutcomes(r *http.Request) (answer, error) {
	since := a.Now().Add(-outcomesSince)
	counts, err := a.DB.Outcomes(r.Context(), since)
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
