package webhook

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTriesAreCountedFromZero: a rate of a state's tries knows of the first of them.
func TestTriesAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	Observe(nil, nil, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "edge_webhook_tries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if want := map[string]float64{"cancelled": 0, "dead": 0, "delivered": 0, "pending": 0}; !maps.Equal(got, want) {
		t.Errorf("at the start there are %v, want %v", got, want)
	}
}
