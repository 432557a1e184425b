// Package tracing tells an OpenTelemetry collector, by OTLP over HTTP, where the
// time of requests goes. It is off unless a collector is named: a nil *Tracer
// and a nil *Span do nothing and cost nothing.
//
// A span holds names, ids of records, statuses and times; never a key, a token,
// a secret, an address, or anything that a partner sent.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config of a Tracer.
type Config struct {
	// Endpoint is the collector's URL; without a path, /v1/traces is meant. "":
	// there are no traces.
	Endpoint string
	// Ratio of requests that are traced, from 0 to 1.
	Ratio float64
	// Service names the process, such as "edge-node", and Release its version.
	Service, Release string
	// Region it stands in. "": not told.
	Region string
	// Log is told, at most once a minute, when the collector takes nothing.
	// Default: none.
	Log *slog.Logger
}

// Tracer makes spans. nil makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sdk.Sampler
}

// Start returns nil, a Tracer that does nothing, without an endpoint. What it
// collects is sent in batches, beside the requests; what cannot be sent is
// dropped. Stop ends it.
func Start(ctx context.Context, c Config) (*Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("tracing: the endpoint is no address such as http://127.0.0.1:4318")
	}
	if c.Ratio < 0 || c.Ratio > 1 {
		return nil, fmt.Errorf("tracing: the ratio %v is not between 0 and 1", c.Ratio)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about := []attribute.KeyValue{attribute.String("service.name", c.Service), attribute.String("service.version", c.Release)}
	if c.Region != "" {
		about = append(about, attribute.String("edge.region", c.Region))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{sampler: sdk.TraceIDRatioBased(c.Ratio)}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(&patient{SpanExporter: exporter, log: c.Log}),
		sdk.WithSampler(sdk.ParentBased(t.sampler)),
		sdk.WithIDGenerator(ids{}),
		sdk.WithResource(resource.NewSchemaless(about...)),
	)
	t.tracer = t.provider.Tracer("partneredge")
	return t, nil
}

// Stop sends what is left, until ctx ends. It may be called twice.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Span is a piece of work. nil is none.
type Span struct{ span trace.Span }

// w3c is how a span is named to others: W3C Trace Context.
var w3c propagation.TraceContext

// Serve begins the span of a request from outside, in a trace of its own: who
// asks decides neither its id nor whether it is kept. A trace of theirs, in
// traceparent, is linked.
func (t *Tracer) Serve(ctx context.Context, name string, from http.Header) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer)}
	theirs := trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.HeaderCarrier(from)))
	if theirs.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: theirs.WithTraceState(trace.TraceState{})}))
	}
	return begun(t.tracer.Start(ctx, name, options...))
}

// Begin begins a span within that of ctx; there is none where ctx has none that
// is kept.
func (t *Tracer) Begin(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return begun(t.tracer.Start(ctx, name))
}

// Join begins a span within one of another process, as Carried told it; there is
// none where that is "".
func (t *Tracer) Join(ctx context.Context, carried, name string) (context.Context, *Span) {
	if t == nil || carried == "" {
		return ctx, nil
	}
	within := w3c.Extract(ctx, propagation.MapCarrier{"traceparent": carried})
	if !trace.SpanContextFromContext(within).IsValid() {
		return ctx, nil
	}
	return begun(t.tracer.Start(within, name, trace.WithSpanKind(trace.SpanKindServer)))
}

func begun(ctx context.Context, s trace.Span) (context.Context, *Span) {
	return ctx, &Span{s}
}

// Current is the span of ctx, nil where none is kept.
func Current(ctx context.Context) *Span {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return &Span{s}
	}
	return nil
}

// Carried is what Join takes: the span of ctx, "" where none is kept.
func Carried(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Onward is life with the span of ctx: for work that outlives what began it.
func Onward(life, ctx context.Context) context.Context {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return trace.ContextWithSpan(life, s)
	}
	return life
}

// Set adds what is known of the work.
func (s *Span) Set(name, value string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// SetInt is Set of a number.
func (s *Span) SetInt(name string, value int) {
	if s != nil {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// Fail marks the work as failed. why is one of a few words, not an error's text,
// which may hold anything.
func (s *Span) Fail(why string) {
	if s != nil {
		s.span.SetStatus(codes.Error, why)
	}
}

// End of the work.
func (s *Span) End() {
	if s != nil {
		s.span.End()
	}
}

// patient logs that nothing is taken, where the SDK would print each time.
type patient struct {
	sdk.SpanExporter
	log  *slog.Logger
	told time.Time
}

// ExportSpans implements sdk.SpanExporter. The SDK calls it one at a time.
func (p *patient) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := p.SpanExporter.ExportSpans(ctx, spans)
	if err != nil && time.Since(p.told) >= time.Minute {
		p.told = time.Now()
		p.log.Warn("traces are dropped: the collector does not take them", "spans", len(spans), "err", err)
	}
	return nil
}
