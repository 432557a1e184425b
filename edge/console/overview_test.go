package console

import (
	"strings"
	"testing"

	"partneredge/edge/adminapi"
)

// TestUnheardStepsAreGaps: a region that is cut off is not shown as idle.
func TestUnheardStepsAreGaps(t *testing.T) {
	heard := func(n uint64) adminapi.TrafficPoint {
		return adminapi.TrafficPoint{Heard: true, Requests: n, Errors: n}
	}
	away := adminapi.RegionTraffic{Region: "away", Points: []adminapi.TrafficPoint{heard(40), {}, heard(80), {}}}
	there := adminapi.RegionTraffic{Region: "there", Points: []adminapi.TrafficPoint{heard(8), heard(8), heard(0), heard(20)}}
	var d overviewData
	d.addRegions(adminapi.Traffic{StepSeconds: 4, Regions: []adminapi.RegionTraffic{away, there}})
	if r := d.Regions[0]; r.Rate != "–" || r.Errors != "–" || r.Limited != "–" {
		t.Errorf("the region that is away has %s, %s and %s a second", r.Rate, r.Errors, r.Limited)
	}
	if requests := d.Charts[0]; requests.Now != "5" || !strings.Contains(string(requests.SVG), `class="line c0" d="M0.0 50.0M400.0 0.0"`) {
		t.Errorf("the chart shows %s, %s", requests.Now, requests.SVG)
	}
	d = overviewData{}
	d.addRegions(adminapi.Traffic{StepSeconds: 4, Regions: []adminapi.RegionTraffic{away}})
	if now := d.Charts[0].Now; now != "–" {
		t.Errorf("with all regions away the chart shows %s", now)
	}
}
