package webhook

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/tracing"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// observed is a Store that counts and traces what came of tries once that is
// written. It counts what is given up without a try as well.
type observed struct {
	Store
	tracer *tracing.Tracer
	ended  *prometheus.CounterVec
	took   prometheus.Histogram
}

// Observe returns the store with metrics and traces of the tries whose outcomes
// are recorded.
func Observe(s Store, tracer *tracing.Tracer, registry *prometheus.Registry) Store {
	o := &observed{
		Store: s, tracer: tracer,
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edge_webhook_tries_total",
			Help: "Webhook tries, by what its delivery is then: delivered, pending (tried again later) or dead. Deliveries that are given up without a try are dead too; those that are cancelled are not tried.",
		}, []string{"state"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edge_webhook_try_duration_seconds", Help: "Time of a webhook try.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	registry.MustRegister(o.ended, o.took)
	for _, state := range []store.State{store.StateDelivered, store.StatePending, store.StateDead} {
		o.ended.WithLabelValues(string(state)) // there from the start, as 0
	}
	return o
}

// RecordOutcomes implements Store.
func (o *observed) RecordOutcomes(ctx context.Context, outcomes []deliveries.Outcome) error {
	if err := o.Store.RecordOutcomes(ctx, outcomes); err != nil {
		return err
	}
	for i := range outcomes {
		made, state := &outcomes[i].Attempt, outcomes[i].State
		if made.Number > 0 || state == store.StateDead {
			o.ended.WithLabelValues(string(state)).Inc()
		}
		if made.Number == 0 {
			continue // none was
		}
		o.took.Observe(made.Latency.Seconds())
		o.tracer.Tried(tracing.Try{
			EventID: made.Headers["x-svc-event-id"], EventType: made.Headers["x-svc-event"], DeliveryID: made.ID,
			Number: made.Number, Status: made.Status, State: string(state), Began: made.StartedAt, Took: made.Latency,
		})
	}
	return nil
}

// tailMost is how many tries a reader may be behind before it misses some.
const tailMost = 256

// Tail returns the tries of this process as they end, until end is called. A
// reader that falls behind misses some, and delays no delivery.
func (s *Sender) Tail() (tries <-chan store.Tried, end func()) {
	c := make(chan store.Tried, tailMost)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tails[c] {
			delete(s.tails, c)
			close(c)
		}
	}
}

// publish sends a try to the readers of Tail. s.mu is held.
func (s *Sender) publish(t *try, o deliveries.Outcome) {
	if len(s.tails) == 0 {
		return
	}
	tried := store.Tried{
		SubscriptionID: t.queue.id, TargetURL: t.target.raw, EventID: t.item.EventID, EventType: t.item.EventType,
		State: o.State, NextAt: o.NextAt, Attempt: o.Attempt,
	}
	for c := range s.tails {
		select {
		case c <- tried:
		default:
		}
	}
}
