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
	p99Rounds   = 5         // the median of whose p99 is the figure
	revocations = 20        // a round, each at every node
	insights    = 15        // likewise
	unlimited   = 1_000_000 // a minute
)

// revocation measures how long after it was revoked a key is served, and how
// long after it was made an insight is not, both over all nodes, from when the
// origin was told.
func (b *bench) revocation(ctx context.Context) error {
	if err := b.p99(ctx, "revocation_p99_ms", revocations, b.revoke); err != nil {
		return err
	}
	_, key, err := b.region.Admin.Key(ctx, b.region.Account, unlimited)
	if err != nil {
		return err
	}
	if err := b.region.Warm(ctx, "coaching/insights", key); err != nil {
		return err
	}
	made := 0
	return b.p99(ctx, "view_p99_ms", insights, func(ctx context.Context) ([]float64, error) {
		made++
		return b.addInsight(ctx, key, made)
	})
}

// p99 measures n times a round, and prints the median of the rounds' p99.
func (b *bench) p99(ctx context.Context, name string, n int, measure func(context.Context) ([]float64, error)) error {
	var p99s []float64
	for range p99Rounds {
		var took []float64
		for range n {
			some, err := measure(ctx)
			if err != nil {
				return err
			}
			took = append(took, some...)
		}
		slices.Sort(took)
		p99s = append(p99s, harness.Quantile(took, 0.99))
		b.Printf("%s: p50 %.1f ms, p99 %.1f ms, most %.1f ms beyond the one-way delay", name, harness.Quantile(took, 0.5), p99s[len(p99s)-1], took[len(took)-1])
	}
	b.Figure(name, harness.Median(p99s), "ms")
	return nil
}

// revoke returns after how many milliseconds each node refuses a key.
func (b *bench) revoke(ctx context.Context) ([]float64, error) {
	r := b.region
	id, key, err := r.Admin.Key(ctx, r.Account, unlimited)
	if err != nil {
		return nil, err
	}
	if err := r.Warm(ctx, "agents/me", key); err != nil {
		return nil, err
	}
	return b.until(ctx, func(n int) bool {
		status, _ := r.Get(ctx, r.Nodes[n], "agents/me", key)
		return status == http.StatusUnauthorized
	}, func() error { return r.Admin.Call(ctx, "POST", "/keys/"+id+"/revoke", nil, nil) })
}

// addInsight returns after how many milliseconds each node shows the nth insight.
func (b *bench) addInsight(ctx context.Context, key string, nth int) ([]float64, error) {
	r := b.region
	headline := fmt.Sprintf("Insight number %03d", nth)
	return b.until(ctx, func(n int) bool {
		_, answer := r.Get(ctx, r.Nodes[n], "coaching/insights", key)
		return bytes.Contains(answer, []byte(headline))
	}, func() error {
		return r.Admin.Call(ctx, "POST", "/accounts/"+r.Account+"/coaching-runs",
			adminapi.NewCoachingRun{Insights: &[]adminapi.NewInsight{{Headline: &headline, Detail: new("of a bench")}}}, nil)
	})
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
	for n := range b.region.Nodes {
		asking.Go(func() {
			for tick := time.Tick(4 * time.Millisecond); ctx.Err() == nil; <-tick {
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
