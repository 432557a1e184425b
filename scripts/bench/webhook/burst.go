package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/webhook"
	"partneredge/edge/webhook/signature"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
)

const (
	endpoints   = 20
	perEndpoint = 8
	bodySize    = 256

	burstWrites = 5 * time.Second // at most: on a busy machine there are fewer events
)

// bare posts signed bodies in a loop, with as many at a time as the sender has
// at most, and nothing else.
func (b *bench) bare(ctx context.Context) (rate float64, err error) {
	transport := b.receiver.Client().Transport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = endpoints * perEndpoint
	defer transport.CloseIdleConnections()
	body := []byte(strings.Repeat("x", bodySize))
	secret := strings.Repeat("0123456789abcdef", 4)
	const length = 3 * time.Second
	began, used := time.Now(), harness.OwnCPUTime()
	var sent atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for e := range endpoints {
		target, err := url.Parse(fmt.Sprintf("%s/bare/%d", b.receiver.URL, e))
		if err != nil {
			return 0, err
		}
		for range perEndpoint {
			all.Go(func() error {
				for time.Since(began) < length && ctx.Err() == nil {
					now := time.Now()
					request := (&http.Request{
						Method: http.MethodPost, URL: target, Host: target.Host, ContentLength: bodySize,
						Header: http.Header{"X-Svc-Signature": {signature.Sign(now, body, secret)}, "Content-Type": {"application/json"}},
						Body:   io.NopCloser(bytes.NewReader(body)),
					}).WithContext(ctx)
					response, err := transport.RoundTrip(request)
					if err != nil {
						return err
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					sent.Add(1)
				}
				return ctx.Err()
			})
		}
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	rate = float64(sent.Load()) / time.Since(began).Seconds()
	b.Printf("bare loop: %.0f posts a second, %.0f us of CPU each", rate, float64((harness.OwnCPUTime()-used).Microseconds())/float64(sent.Load()))
	return rate, nil
}

// burst writes events as fast as the database takes them and waits until all
// have arrived.
func (b *bench) burst(ctx context.Context, d database) error {
	bare, err := b.bare(ctx) // each time: what else the machine does changes
	if err != nil {
		return err
	}
	o, end, err := b.fresh(ctx, d, b.targets("burst", endpoints), webhook.Config{})
	if err != nil {
		return err
	}
	defer end()
	arrived, stop := b.receiver.recorded()
	defer stop()
	if _, err := o.fire(ctx, load{events: 20, writers: 1}); err != nil { // opens connections, prepares statements
		return err
	}
	if err := haveCome(ctx, arrived, 20*endpoints); err != nil {
		return err
	}
	if b.profile != "" {
		f, err := os.Create(b.profile + "." + d.kind)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	began, used := time.Now(), harness.OwnCPUTime()
	events, err := o.fire(ctx, load{b.events, 64, burstWrites})
	if err != nil {
		return err
	}
	total := events * endpoints
	written := time.Since(began)
	if err := haveCome(ctx, arrived, 20*endpoints+total); err != nil {
		return err
	}
	took := time.Since(began)
	rate := float64(total) / took.Seconds()
	b.Printf("%s: %d deliveries in %.2f s (events written in %.2f s), %.0f us of this process's CPU each",
		d.kind, total, took.Seconds(), written.Seconds(), float64((harness.OwnCPUTime()-used).Microseconds())/float64(total))
	b.Worst("deliveries_per_s."+d.kind, rate, "1/s", true)
	b.Worst("over_bare", rate/bare, "ratio", true)
	return nil
}

func (b *bench) targets(part string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s/%s/%d", b.receiver.URL, part, i)
	}
	return all
}

// haveCome waits until n deliveries have come.
func haveCome(ctx context.Context, arrived *hooks.Arrivals, n int) error {
	return harness.Poll(ctx, "the deliveries", func() (bool, error) { return arrived.Count() >= n, nil })
}
