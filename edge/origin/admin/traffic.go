package admin

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/replication"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// showTraffic shows each region's traffic of the last five minutes.
func (a *api) showTraffic(r *http.Request) (answer, error) {
	log, err := a.DB.ChangesSince(r.Context(), 0, 1)
	if err != nil {
		return answer{}, err
	}
	v := adminapi.Traffic{StepSeconds: int(replication.TrafficEvery / time.Second), LatestChange: log.Latest, Regions: []adminapi.RegionTraffic{}}
	regions := make(map[string]*adminapi.RegionTraffic)
	for _, at := range a.Nodes.Enrolled() {
		region := regions[at.Node.Region]
		if region == nil {
			region = &adminapi.RegionTraffic{Region: at.Node.Region}
			regions[at.Node.Region] = region
		}
		region.Nodes++
		if at.Connected {
			region.Connected++
			region.Outbox += at.Status.Outbox
			region.ChangesBehind = max(region.ChangesBehind, log.Latest-at.Status.Seq)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		region := regions[name]
		for _, s := range a.Nodes.Traffic(name) {
			region.Points = append(region.Points, adminapi.TrafficPoint{
				At: stamp(s.At), Requests: s.Requests, Errors: s.Errors, Limited: s.Limited, P50: s.P50, P99: s.P99,
			})
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
	counts, err := a.DB.CountOutcomes(r.Context(), since)
	if err != nil {
		return answer{}, err
	}
	return ok(adminapi.Outcomes{
		Since: stamp(since), Most: deliveries.CountMost, Pending: counts[store.StatePending],
		Delivered: counts[store.StateDelivered], Dead: counts[store.StateDead], Cancelled: counts[store.StateCancelled],
	})
}
