package node

import (
	"context"
	"net/http"

	"partneredge/edge/tracing"
	"partneredge/host"
	"partneredge/wasm/httpfront"
)

// traced makes a trace of each request. Without a tracer it returns next.
func traced(t *tracing.Tracer, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.Serve(r.Context(), "node request", r.Header)
		defer span.End()
		span.Set("http.request.method", httpfront.MethodName(r.Method))
		span.Set("edge.request_id", w.Header().Get(httpfront.RequestID))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// traceFront makes a span of each module's call, and adds the outcome to the
// request's span. Without a tracer it changes nothing.
func traceFront(t *tracing.Tracer, front *httpfront.Config) {
	if t == nil {
		return
	}
	front.Around = func(ctx context.Context, module string) (context.Context, func(error)) {
		ctx, span := t.Begin(ctx, "module "+module)
		return ctx, func(err error) {
			if err != nil {
				span.Fail(string(host.ReasonOf(err)))
			}
			span.End()
		}
	}
	answered := front.Answered
	front.Answered = func(ctx context.Context, o *httpfront.Outcome) {
		span := tracing.Current(ctx)
		span.Set("edge.handler", o.Handler)
		span.SetInt("http.response.status_code", o.Status)
		if o.Status >= http.StatusInternalServerError {
			span.Fail("not answered")
		}
		answered(ctx, o)
	}
}
