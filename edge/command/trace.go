package command

import (
	"context"
	"errors"
	"log/slog"

	"partneredge/edge/tracing"
)

// traceConfig is what the flags say of traces.
type traceConfig struct {
	endpoint string
	ratio    float64
}

// traceFlags are the same for every process.
func (c *traceConfig) traceFlags(f *flags) {
	f.StringVar(&c.endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector that takes traces by OTLP over HTTP, such as http://127.0.0.1:4318 (default: none are made)")
	f.Float64Var(&c.ratio, "trace-ratio", 0.1, "`PART` of requests that are traced, from 0 to 1")
}

// check tells of flags that cannot be meant.
func (c *traceConfig) check(f *flags) error {
	if !(c.ratio >= 0 && c.ratio <= 1) { // nor NaN
		return usagef(f.hint(), "%s: --trace-ratio must be from 0 to 1", f.Name())
	}
	return nil
}

// start returns nil where nothing is to be traced. stop sends what is left, for
// at most stopTime.
func (c *traceConfig) start(ctx context.Context, service, region string, log *slog.Logger) (t *tracing.Tracer, stop func() error, err error) {
	t, err = tracing.Start(ctx, tracing.Config{
		Endpoint: c.endpoint, Ratio: c.ratio, Service: service, Release: version, Region: region, Log: log,
	})
	return t, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := t.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) { // a collector that is away is no fault of ours
			return err
		}
		return nil
	}, err
}
