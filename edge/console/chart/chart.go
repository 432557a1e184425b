// Package chart draws quantities over time as SVG.
package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Size of the box that lines are drawn in. The page stretches the box, but not
// the text, which stands beside it.
const (
	width  = 600
	height = 100
)

// Chart is one quantity over time, a line for each region.
type Chart struct {
	Title, Unit string
	Now         string // the sum, or the worst, of the regions' latest values
	Top, Middle string // values of the upper and the middle grid line
	SVG         template.HTML
}

// Line is a line of a chart. NaN is a missing value.
type Line struct {
	Class  string // of its element in SVG
	Values []float64
}

// Draw makes a chart of lines of equally many values.
func Draw(title, unit, now string, lines []Line) Chart {
	highest := 0.0
	for _, l := range lines {
		for _, v := range l.Values {
			if v > highest {
				highest = v
			}
		}
	}
	top := ceiling(highest)
	c := Chart{Title: title, Unit: unit, Now: now, Top: NumberText(top), Middle: NumberText(top / 2)}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s, last five minutes, now %s %s">`,
		width, height, template.HTMLEscapeString(title), template.HTMLEscapeString(now), template.HTMLEscapeString(unit))
	for _, y := range []int{0, height / 2, height} {
		fmt.Fprintf(&b, `<path class="grid" d="M0 %dH%d"/>`, y, width)
	}
	for _, l := range lines {
		if d := trace(l.Values, top); d != "" {
			fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, l.Class, d)
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
		x := float64(i) * width / float64(max(len(values)-1, 1))
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, x, height*(1-v/top))
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

// NumberText writes a number as short as it can be read, NaN as a dash.
func NumberText(v float64) string {
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
