package console

import (
	"fmt"
	"math"
	"time"

	"partneredge/edge/adminapi"
)

// overviewData is the data of the overview.
type overviewData struct {
	Charts   []chart
	Regions  []regionRow
	Outcomes adminapi.Outcomes
	Shares   []share
	Total    int
	Latest   int64
	Expiring []adminapi.Key // the first of the keys that expire soon; not in the live part
}

// regionRow is a region with its latest numbers.
type regionRow struct {
	adminapi.RegionTraffic
	Class                 string
	Rate, Errors, Limited string
	P50, P99              string
	Away                  int
}

// share is a part of the bar of outcomes, in a box 1000 wide.
type share struct {
	Class    string
	From, To float64
}

// lineClasses counts the colours of lines.
const lineClasses = 6

func overview(v *visit) (view, error) {
	var expiring adminapi.List[adminapi.Key]
	if err := v.get("/keys?limit=10", &expiring); err != nil {
		return view{}, err
	}
	return overviewOf(v, overviewData{Expiring: expiring.Items})
}

// liveOverview reads what its live part shows, many times a minute.
func liveOverview(v *visit) (view, error) { return overviewOf(v, overviewData{}) }

func overviewOf(v *visit, data overviewData) (view, error) {
	var t adminapi.Traffic
	if err := v.get("/traffic", &t); err != nil {
		return view{}, err
	}
	data.Latest = t.LatestChange
	if err := v.get("/outcomes", &data.Outcomes); err != nil {
		return view{}, err
	}
	data.addShares()
	data.addRegions(t)
	return view{page: "overview", Title: "Overview", Section: "overview", Data: data}, nil
}

func (d *overviewData) addShares() {
	o := d.Outcomes
	d.Total = o.Delivered + o.Pending + o.Dead + o.Cancelled
	at := 0.0
	for _, part := range []struct {
		class string
		n     int
	}{{"good", o.Delivered}, {"wait", o.Pending}, {"bad", o.Dead}, {"off", o.Cancelled}} {
		if part.n > 0 {
			to := at + 1000*float64(part.n)/float64(d.Total)
			d.Shares = append(d.Shares, share{part.class, at, to - at})
			at = to
		}
	}
}

// addRegions makes the charts and the rows of the regions.
func (d *overviewData) addRegions(t adminapi.Traffic) {
	step := float64(t.StepSeconds)
	var rate, errors, limited, p50, p99 quantity
	for i, region := range t.Regions {
		class := fmt.Sprintf("c%d", i%lineClasses)
		read := func(class string, value func(adminapi.TrafficPoint) float64) line {
			l := line{class: class}
			for _, p := range region.Points {
				l.values = append(l.values, value(p))
			}
			return l
		}
		d.Regions = append(d.Regions, regionRow{
			RegionTraffic: region, Class: class, Away: region.Nodes - region.Connected,
			Rate:    rate.add(read(class, func(p adminapi.TrafficPoint) float64 { return float64(p.Requests) / step })),
			Errors:  errors.add(read(class, func(p adminapi.TrafficPoint) float64 { return float64(p.Errors) / step })),
			Limited: limited.add(read(class, func(p adminapi.TrafficPoint) float64 { return float64(p.Limited) / step })),
			P99:     p99.add(read(class, func(p adminapi.TrafficPoint) float64 { return orNaN(p.P99) })),
			P50:     p50.add(read(class+" dashed", func(p adminapi.TrafficPoint) float64 { return orNaN(p.P50) })),
		})
	}
	d.Charts = []chart{
		draw("Requests", "per second", rate.sum(), rate.lines),
		draw("Latency p99, p50", "ms", p99.worst()+" / "+p50.worst(), append(p99.lines, p50.lines...)),
		draw("Errors (5xx)", "per second", errors.sum(), errors.lines),
		draw("Rate limited (429)", "per second", limited.sum(), limited.lines),
	}
	if len(t.Regions) > 0 { // which all have the same points in time
		for i, status := range []string{"", "", "5xx", "429"} {
			d.Charts[i].Buckets = buckets(t.Regions[0].Points, time.Duration(t.StepSeconds)*time.Second, status)
		}
	}
}

// quantity is one quantity in all regions.
type quantity struct {
	lines []line
	last  []float64 // the latest value of each region; NaN: none
}

// add adds a region's line, and returns its latest value as text.
func (q *quantity) add(l line) string {
	last := 0.0
	if n := len(l.values); n > 0 {
		last = l.values[n-1]
	}
	q.lines, q.last = append(q.lines, l), append(q.last, last)
	return numberText(last)
}

func (q *quantity) sum() string {
	sum := 0.0
	for _, v := range q.last {
		sum += v
	}
	return numberText(sum)
}

func (q *quantity) worst() string {
	worst := math.NaN()
	for _, v := range q.last {
		if math.IsNaN(worst) || v > worst {
			worst = v
		}
	}
	return numberText(worst)
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
