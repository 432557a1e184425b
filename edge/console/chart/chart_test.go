package chart

import (
	"math"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	nan := math.NaN()
	c := Draw("A <b>", "ms", "1", []Line{{"c0", []float64{0, nan, 5, 10}}, {"c1", []float64{nan, nan, nan, nan}}})
	svg := string(c.SVG)
	if c.Top != "10" || c.Middle != "5" || !strings.Contains(svg, `class="line c0" d="M0.0 100.0M400.0 50.0L600.0 0.0"`) ||
		strings.Contains(svg, "c1") || strings.Contains(svg, "<b>") || strings.Contains(svg, "NaN") {
		t.Errorf("top %s, middle %s: %s", c.Top, c.Middle, svg)
	}
	for v, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 4: 5, 7: 10, 450: 500, 1200: 2000} {
		if got := ceiling(v); math.Abs(got-want) > want*1e-9 {
			t.Errorf("ceiling of %v is %v, want %v", v, got, want)
		}
	}
}
