package console

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// Size of the box that lines are drawn in. The page stretches the box, but not
// the text, which stands beside it.
const (
	chartWidth  = 600
	chartHeight = 100
)

// chart is one quantity over time, a line for each region.
type chart struct {
	Title, Unit string
	Now         string // the sum, or the worst, of the regions' latest values
	Top, Middle string // values of the upper and the middle grid line
	SVG         template.HTML
	Buckets     []bucket // from left to right
}

// bucket is a part of a chart's time, with the address of what was answered in it.
type bucket struct{ Name, To string }

// chartBuckets is into how many parts a chart's time is cut.
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

// line is a line of a chart. NaN is a missing value.
type line struct {
	class  string
	values []float64
}

// draw makes a chart of lines of equally many values.
func draw(title, unit, now string, lines []line) chart {
	highest := 0.0
	for _, l := range lines {
		for _, v := range l.values {
			if v > highest {
				highest = v
			}
		}
	}
	top := ceiling(highest)
	c := chart{Title: title, Unit: unit, Now: now, Top: numberText(top), Middle: numberText(top / 2)}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s, last five minutes, now %s %s">`,
		chartWidth, chartHeight, template.HTMLEscapeString(title), template.HTMLEscapeString(now), template.HTMLEscapeString(unit))
	for _, y := range []int{0, chartHeight / 2, chartHeight} {
		fmt.Fprintf(&b, `<path class="grid" d="M0 %dH%d"/>`, y, chartWidth)
	}
	for _, l := range lines {
		if d := trace(l.values, top); d != "" {
			fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, l.class, d)
		}
	}
	b.WriteString(`</svg>`)
	c.SVG = template.HTML(b.String()) //nolint:gosec // numbers, fixed classes and escaped text
	return c
}

// trace returns an SVG path through the values, with a gap where one is missing.
func trace(values []float64, top float64) string {
	var b strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		x := float64(i) * chartWidth / float64(max(len(values)-1, 1))
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, x, chartHeight*(1-v/top))
		pen = "L"
	}
	return b.String()
}

// ceiling returns the least of 1, 2, 5, 10, 20, 50 … that is not below v.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*unit {
			return f * unit
		}
	}
	return 10 * unit
}

// numberText writes a number as short as it can be read, NaN as a dash.
func numberText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 10_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case v >= 1000:
		return fmt.Sprintf("%.1fk", v/1000)
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
