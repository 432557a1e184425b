// Package tracing sends traces of requests to an OpenTelemetry collector, by OTLP
// over HTTP. It is off unless a collector is configured: a nil *Tracer and a nil
// *Span do nothing and cost nothing.
//
// A span holds names, ids of records, statuses and times. It never holds a key, a
// token, a secret, an address, or anything that a partner has sent.
package tracing

import (
	"cmp"
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

// Config configures a Tracer.
type Config struct {
	// Endpoint is the collector's URL; its default path is /v1/traces. "" means no
	// tracing.
	Endpoint string
	// Ratio is the share of requests that are traced, from 0 to 1.
	Ratio float64
	// Service names the process, such as "edge-node", and Release is its version.
	Service, Release string
	// Region is the region of the process; "" omits it.
	Region string
	// Log gets at most one warning a minute while the collector fails. Default:
	// nothing is logged.
	Log *slog.Logger
}

// Tracer creates spans. A nil Tracer creates none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sdk.Sampler
}

// Start returns a Tracer, which is nil without an endpoint. Spans are sent in
// batches in the background, and dropped if the collector fails. The caller must
// call Stop.
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
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	t := &Tracer{sampler: sdk.TraceIDRatioBased(c.Ratio)}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(&quietExporter{SpanExporter: exporter, log: c.Log}),
		sdk.WithSampler(sdk.ParentBased(t.sampler)),
		sdk.WithIDGenerator(ids{}),
		sdk.WithResource(resource.NewSchemaless(about...)),
	)
	t.tracer = t.provider.Tracer("partneredge")
	return t, nil
}

// Stop sends the remaining spans, until ctx ends. It may be called twice.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Span is a piece of work. A nil Span does nothing.
type Span struct{ span trace.Span }

// w3c passes spans between processes in the form of W3C Trace Context.
var w3c propagation.TraceContext

// Serve begins the span of a request from outside, in a trace of its own: the
// client decides neither its id nor whether it is kept. If the request has a
// traceparent, that trace is linked.
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

// Begin begins a span within that of ctx. It returns nil if ctx has no span that is
// kept.
func (t *Tracer) Begin(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return begun(t.tracer.Start(ctx, name))
}

// Join begins a span within that of another process, given by its Traceparent. It
// returns nil if that is "".
func (t *Tracer) Join(ctx context.Context, traceparent, name string) (context.Context, *Span) {
	if t == nil || traceparent == "" {
		return ctx, nil
	}
	within := w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	if !trace.SpanContextFromContext(within).IsValid() {
		return ctx, nil
	}
	return begun(t.tracer.Start(within, name, trace.WithSpanKind(trace.SpanKindServer)))
}

func begun(ctx context.Context, s trace.Span) (context.Context, *Span) {
	return ctx, &Span{s}
}

// Current returns the span of ctx, nil if none is kept.
func Current(ctx context.Context) *Span {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return &Span{s}
	}
	return nil
}

// Traceparent returns the span of ctx in the form that Join takes, "" if none is
// kept.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// WithSpanOf returns life with the span of ctx, for work that outlives ctx.
func WithSpanOf(life, ctx context.Context) context.Context {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return trace.ContextWithSpan(life, s)
	}
	return life
}

// Set sets an attribute of the span.
func (s *Span) Set(name, value string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// SetInt is like Set for a number.
func (s *Span) SetInt(name string, value int) {
	if s != nil {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// Fail marks the work as failed. why must be one of a few words and not the text of
// an error, which may hold anything.
func (s *Span) Fail(why string) {
	if s != nil {
		s.span.SetStatus(codes.Error, why)
	}
}

// End ends the span.
func (s *Span) End() {
	if s != nil {
		s.span.End()
	}
}

// quietExporter logs failures at most once a minute; the SDK would print each.
type quietExporter struct {
	sdk.SpanExporter
	log    *slog.Logger
	logged time.Time
}

// ExportSpans implements sdk.SpanExporter. The SDK calls it one at a time.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err != nil && time.Since(q.logged) >= time.Minute {
		q.logged = time.Now()
		q.log.Warn("traces are dropped: the collector does not take them", "spans", len(spans), "err", err)
	}
	return nil
}
