package webhook

import (
	"context"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// TestTriesAreCountedFromZero: a rate of a state's tries knows of the first of them. Cancelled is
// not among the states: what is cancelled is not tried, and the sender holds little of it.
func TestTriesAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	Observe(nil, nil, registry)
	got, _ := observedTries(t, registry)
	if want := map[string]float64{"dead": 0, "delivered": 0, "pending": 0}; !maps.Equal(got, want) {
		t.Errorf("at the start there are %v, want %v", got, want)
	}
}

// recording is a Store that takes every outcome.
type recording struct{ Store }

func (recording) RecordOutcomes(context.Context, []deliveries.Outcome) error { return nil }

// TestGivenUpIsCounted: a delivery that is given up without a try is counted as dead, and has
// no time of a try. One that is cancelled, or whose lease ends, is not counted.
func TestGivenUpIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := Observe(recording{}, nil, registry)
	var untried []deliveries.Outcome
	for _, state := range []store.State{store.StateDead, store.StateCancelled, store.StatePending} {
		untried = append(untried, deliveries.Outcome{Attempt: store.Attempt{DeliveryID: "dlv_" + string(state)}, State: state})
	}
	if err := s.RecordOutcomes(t.Context(), untried); err != nil {
		t.Fatal(err)
	}
	got, timed := observedTries(t, registry)
	if want := map[string]float64{"dead": 1, "delivered": 0, "pending": 0}; !maps.Equal(got, want) || timed != 0 {
		t.Errorf("counted are %v and the times of %d tries, want %v and none", got, timed, want)
	}
}

// observedTries returns how many tries were counted, by state, and how many were timed.
func observedTries(t *testing.T, registry *prometheus.Registry) (counted map[string]float64, timed uint64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted = map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "edge_webhook_tries_total" {
				counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
			timed += m.GetHistogram().GetSampleCount()
		}
	}
	return counted, timed
}
