package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The ids of an event's trace are derived from the event's id. So every process
// finds the trace at every retry, without storing or sending anything.

// ids generates random ids, except for a span whose context has a wantedID.
type ids struct{}

// wantedID is the context key of the span context to use for a new trace.
type wantedID struct{}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if wanted, ok := ctx.Value(wantedID{}).(trace.SpanContext); ok {
		return wanted.TraceID(), wanted.SpanID()
	}
	_, _ = rand.Read(t[:]) // never fails
	return t, g.NewSpanID(ctx, t)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// ofEvent returns the first span of an event's trace.
func (t *Tracer) ofEvent(id string) trace.SpanContext {
	sum := sha256.Sum256([]byte(id))
	c := trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24])}
	if t.sampler.ShouldSample(sdk.SamplingParameters{TraceID: c.TraceID}).Decision == sdk.RecordAndSample {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// Emitted begins the trace of an event and links it to the span of ctx, the request
// that emitted the event.
func (t *Tracer) Emitted(ctx context.Context, id, kind string, at time.Time) {
	if t == nil {
		return
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindProducer)}
	if request := trace.SpanContextFromContext(ctx); request.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: request}))
	}
	ctx = context.WithValue(ctx, wantedID{}, t.ofEvent(id))
	_, s := begun(t.tracer.Start(ctx, "event "+kind, options...))
	s.Set("edge.event.id", id)
	s.End()
}

// Try is a finished attempt of a delivery.
type Try struct {
	EventID, EventType, DeliveryID string
	Number                         int
	Status                         int    // 0 if there was no answer
	State                          string // of the delivery afterwards
	Began                          time.Time
	Took                           time.Duration
}

// Tried adds an attempt to the trace of its event.
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
