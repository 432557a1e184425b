package console

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Lines are drawn in a box of this size, which the page stretches; what is
// written stands beside it, so that it is never stretched.
const (
	chartWidth  = 600
	chartHeight = 100
)

// chart is one quantity over time, a line for each region.
type chart struct {
	Title, Unit string
	Now         string // the sum, or the worst, of the regions' latest values
	Top, Middle string // what the upper and the middle line stand for
	Empty       bool
	SVG         template.HTML
}

// line of a chart. NaN is where there is no value.
type line struct {
	class  string
	values []float64
}

// draw makes a chart of lines of equally many values.
func draw(title, unit, now string, lines []line) chart {
	most := 0.0
	for _, l := range lines {
		for _, v := range l.values {
			if v > most {
				most = v
			}
		}
	}
	c := chart{Title: title, Unit: unit, Now: now, Empty: most == 0}
	top := ceiling(most)
	c.Top, c.Middle = amount(top), amount(top/2)
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

// trace is a path through the values, with a gap where there is none.
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

// ceiling is the next of 1, 2, 5, 10, 20, 50 … from v on.
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

// amount writes a number as short as it can be read.
func amount(v float64) string {
	switch {
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
