package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

// limit of the keys whose limit is measured, a minute.
const limit = 100

// load is one key and how it is used.
type load struct {
	name     string
	every    time.Duration // between two requests, or two rounds
	together bool          // each round asks every node at once; else the nodes in turn

	key     string
	mu      sync.Mutex
	answers []answer
}

type answer struct {
	sent   time.Time
	status int
}

// limits runs all loads side by side.
func (b *bench) limits(ctx context.Context) error {
	loads := []*load{
		{name: "over_admission_pct.5", every: time.Second / 5},
		{name: "over_admission_pct.20", every: time.Second / 20},
		{name: "over_admission_pct.50", every: time.Second / 50},
		{name: "over_admission_pct.200x10", every: time.Second / 200, together: true},
		{name: "false_429", every: 2 * time.Second / 3},
	}
	// Nodes are to hold the keys, their bucket to be full, and what they know of
	// each other's spending to be stale.
	for _, l := range loads {
		var err error
		if _, l.key, err = b.region.admin.Key(ctx, b.region.account, limit); err != nil {
			return err
		}
		if err := b.region.warm(ctx, "agents/me", l.key); err != nil {
			return err
		}
	}
	if err := harness.Sleep(ctx, 12*time.Second); err != nil {
		return err
	}
	before, err := b.asked(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, l := range loads {
		group.Go(func() error { return b.drive(ctx, l) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := b.asked(ctx)
	if err != nil {
		return err
	}
	for _, l := range loads {
		l.report(b)
	}
	b.Figure("hot_path_origin_waits", after-before, "requests")
	return nil
}

// drive asks for as long as the bench lasts. What the machine was too busy to
// send in time is sent as soon as it can be, but not after the end.
func (b *bench) drive(ctx context.Context, l *load) error {
	start := time.Now()
	room := make(chan struct{}, 256) // under way
	var asking sync.WaitGroup
	defer asking.Wait()
	ask := func(i int) {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			sent := time.Now()
			status, _ := b.region.get(ctx, b.region.nodes[i%len(b.region.nodes)], "agents/me", l.key)
			l.mu.Lock()
			l.answers = append(l.answers, answer{sent, status})
			l.mu.Unlock()
		})
	}
	for i := 0; time.Duration(i)*l.every < b.last && time.Since(start) < b.last; i++ {
		if err := harness.Sleep(ctx, time.Until(start.Add(time.Duration(i)*l.every))); err != nil {
			return err
		}
		if l.together {
			for n := range b.region.nodes {
				ask(n)
			}
		} else {
			ask(i)
		}
	}
	return nil
}

// report compares what was let through with what one bucket would have let
// through that had seen the same requests.
func (l *load) report(b *bench) {
	slices.SortFunc(l.answers, func(x, y answer) int { return x.sent.Compare(y.sent) })
	var bucket ratelimit.Account
	admitted, ideal, refused, failed := 0, 0, 0, 0
	for _, a := range l.answers {
		if got, _ := bucket.Take(limit, a.sent.UnixMicro()); got.Allowed {
			ideal++
		}
		switch a.status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			refused++
		default:
			failed++
		}
	}
	b.Printf("%s: %d requests, %.4g a second, %d admitted, %d refused, %d failed; one bucket admits %d",
		l.name, len(l.answers), float64(len(l.answers))/b.last.Seconds(), admitted, refused, failed, ideal)
	if l.name == "false_429" {
		b.Figure(l.name, float64(refused), "answers")
		return
	}
	b.Figure(l.name, 100*(float64(admitted)/float64(ideal)-1), "%")
}

// asked returns how often nodes have asked the origin for a key or a view.
func (b *bench) asked(ctx context.Context) (sum float64, err error) {
	for _, n := range b.region.nodes {
		for _, verb := range []string{"key", "view"} {
			count, err := b.metric(ctx, n.MetricsURL(), `edge_origin_requests_total{`, `verb="`+verb+`"`)
			if err != nil {
				return 0, err
			}
			sum += count
		}
	}
	return sum, nil
}

// metric adds up the lines of a node's metrics that begin and go on so.
func (b *bench) metric(ctx context.Context, url, prefix, part string) (sum float64, err error) {
	_, text, err := b.region.send(ctx, url+"/metrics", nil, nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, prefix) || !strings.Contains(line, part) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			return 0, fmt.Errorf("metrics: %w", err)
		}
		sum += value
	}
	return sum, nil
}
