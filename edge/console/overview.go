package console

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/console/chart"
)

// overviewData is the data of the overview.
type overviewData struct {
	Charts   []plot
	Regions  []regionRow
	Outcomes adminapi.Outcomes
	Shares   []share
	Total    int
	Latest   int64
	Expiring []adminapi.Key // the first of the keys that expire soon; not in the live part
	More     bool           // of them expire soon
}

// plot is a chart with what was answered in each part of its time.
type plot struct {
	chart.Chart
	Buckets []bucket // from left to right
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
	return overviewOf(v, overviewData{Expiring: expiring.Items, More: expiring.NextCursor != ""})
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
	perSecond := func(p adminapi.TrafficPoint, n uint64) float64 {
		if !p.Heard {
			return math.NaN()
		}
		return float64(n) / float64(t.StepSeconds)
	}
	var rate, errors, limited, p50, p99 quantity
	for i, region := range t.Regions {
		class := fmt.Sprintf("c%d", i%lineClasses)
		read := func(class string, value func(adminapi.TrafficPoint) float64) chart.Line {
			l := chart.Line{Class: class}
			for _, p := range region.Points {
				l.Values = append(l.Values, value(p))
			}
			return l
		}
		d.Regions = append(d.Regions, regionRow{
			RegionTraffic: region, Class: class, Away: region.Nodes - region.Connected,
			Rate:    rate.add(read(class, func(p adminapi.TrafficPoint) float64 { return perSecond(p, p.Requests) })),
			Errors:  errors.add(read(class, func(p adminapi.TrafficPoint) float64 { return perSecond(p, p.Errors) })),
			Limited: limited.add(read(class, func(p adminapi.TrafficPoint) float64 { return perSecond(p, p.Limited) })),
			P99:     p99.add(read(class, func(p adminapi.TrafficPoint) float64 { return orNaN(p.P99) })),
			P50:     p50.add(read(class+" dashed", func(p adminapi.TrafficPoint) float64 { return orNaN(p.P50) })),
		})
	}
	d.Charts = []plot{
		{Chart: chart.Draw("Requests", "per second", rate.sum(), rate.lines)},
		{Chart: chart.Draw("Latency p99, p50", "ms", p99.worst()+" / "+p50.worst(), append(p99.lines, p50.lines...))},
		{Chart: chart.Draw("Errors (5xx)", "per second", errors.sum(), errors.lines)},
		{Chart: chart.Draw("Rate limited (429)", "per second", limited.sum(), limited.lines)},
	}
	if len(t.Regions) > 0 { // which all have the same points in time
		for i, status := range []string{"", "", "5xx", "429"} {
			d.Charts[i].Buckets = buckets(t.Regions[0].Points, time.Duration(t.StepSeconds)*time.Second, status)
		}
	}
}

// bucket is a part of a chart's time, with the address of what was answered in it.
type bucket struct{ Name, To string }

// chartBuckets is the number of parts that a chart's time is cut into.
const chartBuckets = 10

// buckets cuts the time of points into parts that lead to the requests of a status, or of
// any for "".
func buckets(points []adminapi.TrafficPoint, step time.Duration, status string) (all []bucket) {
	for i := range chartBuckets {
		part := points[i*len(points)/chartBuckets : (i+1)*len(points)/chartBuckets]
		if len(part) == 0 {
			continue
		}
		since, until := part[0].At.UTC(), part[len(part)-1].At.Add(step).UTC()
		query := url.Values{"since": {since.Format(formTime)}, "until": {until.Format(formTime)}}
		if status != "" {
			query.Set("status", status)
		}
		all = append(all, bucket{
			Name: "from " + since.Format(time.TimeOnly) + " to " + until.Format(time.TimeOnly), To: Path + "requests?" + query.Encode(),
		})
	}
	return all
}

// quantity is one quantity in all regions.
type quantity struct {
	lines []chart.Line
	last  []float64 // the latest value of each region; NaN: none
}

// add adds a region's line, and returns its latest value as text.
func (q *quantity) add(l chart.Line) string {
	last := 0.0
	if n := len(l.Values); n > 0 {
		last = l.Values[n-1]
	}
	q.lines, q.last = append(q.lines, l), append(q.last, last)
	return chart.NumberText(last)
}

// sum returns the sum of the values that there are, NaN where all regions have none.
func (q *quantity) sum() string {
	sum, have := 0.0, len(q.last) == 0
	for _, v := range q.last {
		if !math.IsNaN(v) {
			sum, have = sum+v, true
		}
	}
	if !have {
		sum = math.NaN()
	}
	return chart.NumberText(sum)
}

func (q *quantity) worst() string {
	worst := math.NaN()
	for _, v := range q.last {
		if math.IsNaN(worst) || v > worst {
			worst = v
		}
	}
	return chart.NumberText(worst)
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
