package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestOffCostsNothing checks that nothing is allocated without a collector.
func TestOffCostsNothing(t *testing.T) {
	off, err := Start(t.Context(), Config{})
	if err != nil || off != nil {
		t.Fatalf("without an endpoint: %v, %v", off, err)
	}
	ctx, header, at := t.Context(), http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}, time.Now()
	allocated := testing.AllocsPerRun(100, func() {
		within, span := off.Serve(ctx, "request", header)
		_, inner := off.Begin(within, "module")
		_, far := off.Join(within, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "node's")
		inner.Set("a", "b")
		inner.SetInt("a", 1)
		inner.Fail("why")
		inner.End()
		far.End()
		Current(within).Set("a", "b")
		off.Emitted(ctx, "evt_1", "type", at)
		off.Tried(Try{})
		span.End()
		if Traceparent(within) != "" || WithSpanOf(ctx, within) != ctx {
			t.Error("a context has a span")
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations a request", allocated)
	}
	if err := off.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRatio checks that with 0 nothing is kept, nor passed to the next process.
func TestRatio(t *testing.T) {
	for ratio, kept := range map[float64]bool{0: false, 1: true} {
		tracer, err := Start(t.Context(), Config{Endpoint: "http://127.0.0.1:1", Ratio: ratio})
		if err != nil {
			t.Fatal(err)
		}
		// A partner cannot make a request be traced.
		ctx, span := tracer.Serve(t.Context(), "request", http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
		_, inner := tracer.Begin(ctx, "module")
		first, again := tracer.ofEvent("evt_1"), tracer.ofEvent("evt_1")
		if (inner != nil) != kept || (Traceparent(ctx) != "") != kept || strings.Contains(Traceparent(ctx), "0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("ratio %v: span %v, traceparent %q", ratio, inner, Traceparent(ctx))
		}
		if first.IsSampled() != kept || first.TraceID() != again.TraceID() || first.TraceID() == tracer.ofEvent("evt_2").TraceID() {
			t.Errorf("ratio %v: an event's trace is not derived from its id", ratio)
		}
		inner.End()
		span.End()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the collector is not there
		_ = tracer.Stop(ctx)
	}
}

// TestCollectorThatRefuses checks that a failing collector is logged once, not at
// each batch.
func TestCollectorThatRefuses(t *testing.T) {
	var asked atomic.Int32
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/v1/traces" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer collector.Close()
	var log bytes.Buffer
	tracer, err := Start(t.Context(), Config{Endpoint: collector.URL, Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, span := tracer.Serve(t.Context(), "request", nil)
		span.End()
		if err := tracer.provider.ForceFlush(t.Context()); err != nil {
			t.Errorf("flush: %v", err)
		}
	}
	if err := errors.Join(tracer.Stop(t.Context()), tracer.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	if asked.Load() != 3 || strings.Count(log.String(), "traces are dropped") != 1 {
		t.Errorf("asked %d times, logged:\n%s", asked.Load(), &log)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, c := range []Config{
		{Endpoint: "collector:4318"}, {Endpoint: "ftp://collector"}, {Endpoint: "http://"},
		{Endpoint: "http://collector", Ratio: -0.1}, {Endpoint: "http://collector", Ratio: 1.1},
	} {
		if _, err := Start(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "tracing: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// BenchmarkRequest measures a request with two modules: off, not kept, kept.
func BenchmarkRequest(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	for name, c := range map[string]Config{"off": {}, "not kept": {Endpoint: collector.URL}, "kept": {Endpoint: collector.URL, Ratio: 1}} {
		b.Run(name, func(b *testing.B) {
			tracer, err := Start(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracer.Serve(b.Context(), "node request", nil)
				for _, module := range []string{"module gate", "module agents"} {
					_, inner := tracer.Begin(ctx, module)
					inner.End()
				}
				Current(ctx).SetInt("http.response.status_code", 200)
				span.End()
			}
			_ = tracer.Stop(context.WithoutCancel(b.Context()))
		})
	}
}
