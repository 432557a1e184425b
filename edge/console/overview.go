package console

import (
	"math"
	"net/http"
)

// overviewData is what the live part of the overview shows.
type overviewData struct {
	Charts   []chart
	Regions  []regionRow
	Outcomes outcomes
	Shares   []share
	Total    int
	Latest   int64
}

// regionRow is a region's latest numbers.
type regionRow struct {
	region
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

// lineClasses is how many colours there are.
const lineClasses = 6

func (c *Console) readOverview(r *http.Request, s *session) (*overviewData, error) {
	var t traffic
	if err := c.api.call(r, s.token, http.MethodGet, "/traffic", nil, &t); err != nil {
		return nil, err
	}
	data := &overviewData{Latest: t.Latest}
	if err := c.api.call(r, s.token, http.MethodGet, "/outcomes", nil, &data.Outcomes); err != nil {
		return nil, err
	}
	o := data.Outcomes
	data.Total = o.Delivered + o.Pending + o.Dead + o.Cancelled
	at := 0.0
	for _, part := range []struct {
		class string
		n     int
	}{{"good", o.Delivered}, {"wait", o.Pending}, {"bad", o.Dead}, {"off", o.Cancelled}} {
		if part.n > 0 {
			to := at + 1000*float64(part.n)/float64(data.Total)
			data.Shares = append(data.Shares, share{part.class, at, to - at})
			at = to
		}
	}
	data.draw(t)
	return data, nil
}

// draw makes the charts and the rows of the regions.
func (d *overviewData) draw(t traffic) {
	var requests, failures, limited, times []line
	var sums [3]float64
	worst50, worst99 := math.NaN(), math.NaN()
	for i, one := range t.Regions {
		class := "c" + string(rune('0'+i%lineClasses))
		of := func(value func(point) float64) (all []float64) {
			for _, p := range one.Points {
				all = append(all, value(p))
			}
			return all
		}
		perSecond := func(value func(point) float64) line {
			return line{class, of(func(p point) float64 { return value(p) / t.StepSeconds })}
		}
		a := perSecond(func(p point) float64 { return p.Requests })
		b := perSecond(func(p point) float64 { return p.Errors })
		l := perSecond(func(p point) float64 { return p.Limited })
		p50 := line{class + " dashed", of(func(p point) float64 { return orNaN(p.P50) })}
		p99 := line{class, of(func(p point) float64 { return orNaN(p.P99) })}
		requests, failures, limited, times = append(requests, a), append(failures, b), append(limited, l), append(times, p99, p50)
		row := regionRow{
			region: one, Class: class, Rate: amount(last(a)), Errors: amount(last(b)), Limited: amount(last(l)),
			P50: orDash(last(p50)), P99: orDash(last(p99)), Away: one.Nodes - one.Connected,
		}
		for i, v := range []float64{last(a), last(b), last(l)} {
			sums[i] += v
		}
		worst50, worst99 = worse(worst50, last(p50)), worse(worst99, last(p99))
		d.Regions = append(d.Regions, row)
	}
	d.Charts = []chart{
		draw("Requests", "per second", amount(sums[0]), requests),
		draw("Latency p99, p50", "ms", orDash(worst99)+" / "+orDash(worst50), times),
		draw("Errors (5xx)", "per second", amount(sums[1]), failures),
		draw("Rate limited (429)", "per second", amount(sums[2]), limited),
	}
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func orDash(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return amount(v)
}

func last(l line) float64 {
	if len(l.values) == 0 {
		return 0
	}
	return l.values[len(l.values)-1]
}

// worse is the larger of two of which either may be missing.
func worse(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	if math.IsNaN(b) {
		return a
	}
	return max(a, b)
}
