package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// An event's trace follows from the event's id, so that every process, at every
// retry, finds it without anything that is kept or sent.

// ids are random, but for what a context asks for.
type ids struct{}

// askedFor finds the span context that is to be used, in a context.
type askedFor struct{}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if asked, ok := ctx.Value(askedFor{}).(trace.SpanContext); ok {
		return asked.TraceID(), asked.SpanID()
	}
	_, _ = rand.Read(t[:]) // never fails: crypto/rand ends the program instead
	return t, g.NewSpanID(ctx, t)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	_, _ = rand.Read(s[:]) // as above
	return s
}

// ofEvent is the first span of an event's trace.
func (t *Tracer) ofEvent(id string) trace.SpanContext {
	sum := sha256.Sum256([]byte(id))
	c := trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24])}
	if t.sampler.ShouldSample(sdk.SamplingParameters{TraceID: c.TraceID}).Decision == sdk.RecordAndSample {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// Emitted begins an event's trace, linked to the request that made it, which is
// that of ctx.
func (t *Tracer) Emitted(ctx context.Context, id, kind string, at time.Time) {
	if t == nil {
		return
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindProducer)}
	if made := trace.SpanContextFromContext(ctx); made.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: made}))
	}
	ctx = context.WithValue(ctx, askedFor{}, t.ofEvent(id))
	_, s := begun(t.tracer.Start(ctx, "event "+kind, options...))
	s.Set("edge.event.id", id)
	s.End()
}

// Try is one try of a delivery, told once it is over.
type Try struct {
	EventID, EventType, DeliveryID string
	Number                         int
	Status                         int    // 0 when no answer came
	State                          string // of the delivery, then
	Began                          time.Time
	Took                           time.Duration
}

// Tried adds a try to its event's trace.
func (t *Tracer) Tried(try Try) {
	if t == nil {
		return
	}
	of := t.ofEvent(try.EventID)
	if !of.IsSampled() {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), of)
	_, span := t.tracer.Start(ctx, "deliver "+try.EventType, trace.WithTimestamp(try.Began), trace.WithSpanKind(trace.SpanKindConsumer))
	s := &Span{span}
	s.Set("edge.event.id", try.EventID)
	s.Set("edge.delivery.id", try.DeliveryID)
	s.Set("edge.delivery.state", try.State)
	s.SetInt("edge.delivery.try", try.Number)
	s.SetInt("http.response.status_code", try.Status)
	if try.Status/100 != 2 {
		s.Fail("not acknowledged")
	}
	span.End(trace.WithTimestamp(try.Began.Add(try.Took)))
}
