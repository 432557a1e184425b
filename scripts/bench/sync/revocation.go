package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/scripts/bench/harness"
)

const (
	revocations = 30
	insights    = 20
	unlimited   = 1_000_000 // a minute
)

// revocation measures how long after it was revoked a key is served, and how
// long after it was made an insight is not, both over all nodes, from when the
// origin was told.
func (b *bench) revocation(ctx context.Context) error {
	r := b.region
	var took []float64
	for range revocations {
		id, key, err := r.admin.Key(ctx, r.account, unlimited)
		if err != nil {
			return err
		}
		if err := r.warm(ctx, "agents/me", key); err != nil {
			return err
		}
		some, err := b.until(ctx, func(n int) bool {
			status, _ := r.get(ctx, r.nodes[n], "agents/me", key)
			return status == http.StatusUnauthorized
		}, func() error { return r.admin.Call(ctx, "POST", "/keys/"+id+"/revoke", nil, nil) })
		if err != nil {
			return err
		}
		took = append(took, some...)
	}
	slices.Sort(took)
	b.Printf("revoked keys are dead at every node, beyond the one-way delay, p50 %.1f ms, most %.1f ms", harness.Quantile(took, 0.5), took[len(took)-1])
	b.Figure("revocation_p99_ms", harness.Quantile(took, 0.99), "ms")

	_, key, err := r.admin.Key(ctx, r.account, unlimited)
	if err != nil {
		return err
	}
	if err := r.warm(ctx, "coaching/insights", key); err != nil {
		return err
	}
	took = nil
	for i := range insights {
		headline := fmt.Sprintf("Insight number %03d", i)
		some, err := b.until(ctx, func(n int) bool {
			_, answer := r.get(ctx, r.nodes[n], "coaching/insights", key)
			return bytes.Contains(answer, []byte(headline))
		}, func() error {
			return r.admin.Call(ctx, "POST", "/accounts/"+r.account+"/coaching-runs",
				adminapi.NewCoachingRun{Insights: &[]adminapi.NewInsight{{Headline: &headline, Detail: new("of a bench")}}}, nil)
		})
		if err != nil {
			return err
		}
		took = append(took, some...)
	}
	slices.Sort(took)
	b.Figure("view_p99_ms", harness.Quantile(took, 0.99), "ms")
	return nil
}

// until does something and asks every node until it shows. It returns after how
// many milliseconds that was, less the one-way delay.
func (b *bench) until(ctx context.Context, shows func(node int) bool, do func() error) (took []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	began := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for n := range b.region.nodes {
		asking.Go(func() {
			for tick := time.NewTicker(4 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				if shows(n) {
					mu.Lock()
					took = append(took, float64(time.Since(began)-delay)/float64(time.Millisecond))
					mu.Unlock()
					return
				}
			}
		})
	}
	asking.Wait()
	return took, ctx.Err()
}
