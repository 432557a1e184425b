package command

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/tracing"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
)

// tries is the database as the webhook sender sees it, which counts and traces
// what came of its tries once that is written.
type tries struct {
	*central.DB
	tracer *tracing.Tracer
	ended  *prometheus.CounterVec
	took   prometheus.Histogram
}

func newTries(db *central.DB, tracer *tracing.Tracer, registry *prometheus.Registry) *tries {
	t := &tries{
		DB: db, tracer: tracer,
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edge_webhook_tries_total",
			Help: "Webhook tries, by what its delivery is then: delivered, pending (tried again later), dead or cancelled.",
		}, []string{"state"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edge_webhook_try_duration_seconds", Help: "Time of a webhook try.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	registry.MustRegister(t.ended, t.took)
	return t
}

// RecordOutcomes implements webhook.Store.
func (t *tries) RecordOutcomes(ctx context.Context, outcomes []deliveries.Outcome) error {
	if err := t.DB.RecordOutcomes(ctx, outcomes); err != nil {
		return err
	}
	for i := range outcomes {
		made := &outcomes[i].Attempt
		if made.Number == 0 {
			continue // none was
		}
		t.ended.WithLabelValues(string(outcomes[i].State)).Inc()
		t.took.Observe(made.Latency.Seconds())
		t.tracer.Tried(tracing.Try{
			EventID: made.Headers["x-svc-event-id"], EventType: made.Headers["x-svc-event"], DeliveryID: made.ID,
			Number: made.Number, Status: made.Status, State: string(outcomes[i].State), Began: made.StartedAt, Took: made.Latency,
		})
	}
	return nil
}
