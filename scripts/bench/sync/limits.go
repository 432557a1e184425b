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

	"partneredge/edge/backoff"
	"partneredge/scripts/bench/fleet"
	"partneredge/store/ratelimit"
)

// limit of the keys whose limit is measured, a minute.
const limit = 100

// load is one key and how it is used.
type load struct {
	name string
	due  func(i, nodes int) due // of the i-th request, in the order of time

	key     string
	mu      sync.Mutex
	answers []answer
}

// due says when a request is sent, from the load's start on, and to which node.
type due struct {
	after time.Duration
	node  int
}

type answer struct {
	sent   time.Time
	node   int
	status int
}

// inTurn asks one node after the other, at even times.
func inTurn(perSecond int) func(i, nodes int) due {
	return func(i, nodes int) due {
		return due{time.Duration(i) * time.Second / time.Duration(perSecond), i % nodes}
	}
}

// together asks every node at once, at even times.
func together(perSecond int) func(i, nodes int) due {
	return func(i, nodes int) due {
		return due{time.Duration(i/nodes) * time.Second / time.Duration(perSecond), i % nodes}
	}
}

// Parts of a minute of the load belowLimit.
const (
	firstBurst  = 60
	secondBurst = 30
	lone        = 8
	minuteTotal = firstBurst + secondBurst + lone // a little below limit
)

// belowLimit sends fewer requests than limit in any minute, as a partner does who
// works from one place and then from another: 60 within five seconds to one node,
// 30 in the next four to a second one, then eight, six seconds apart, to any. The next
// minute it is two other nodes. One bucket of the limit refuses none of them; nodes
// that had a fixed share each would refuse most.
func belowLimit(i, nodes int) due {
	minute, nth := i/minuteTotal, i%minuteTotal
	start := time.Duration(minute) * time.Minute
	first := 3*minute + 1
	switch {
	case nth < firstBurst:
		return due{start + time.Duration(nth)*5*time.Second/firstBurst, first % nodes}
	case nth < firstBurst+secondBurst:
		return due{start + 5*time.Second + time.Duration(nth-firstBurst)*4*time.Second/secondBurst, (first + nodes/2) % nodes}
	}
	nth -= firstBurst + secondBurst
	return due{start + 12*time.Second + time.Duration(nth)*6*time.Second, (first + nth) % nodes}
}

// limits runs all loads side by side.
func (b *bench) limits(ctx context.Context) error {
	loads := []*load{
		{name: "over_admission_pct.5", due: inTurn(5)},
		{name: "over_admission_pct.20", due: inTurn(20)},
		{name: "over_admission_pct.50", due: inTurn(50)},
		{name: "over_admission_pct.200x10", due: together(200)},
		{name: "false_429", due: belowLimit},
	}
	// Nodes are to hold the keys, their bucket to be full, and what they know of
	// each other's spending to be stale.
	for _, l := range loads {
		var err error
		if _, l.key, err = b.region.Admin.Key(ctx, b.region.Account, limit); err != nil {
			return err
		}
		if err := b.region.Warm(ctx, "agents/me", l.key); err != nil {
			return err
		}
	}
	if err := backoff.Pause(ctx, 12*time.Second); err != nil {
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
		if err := l.report(b); err != nil {
			return err
		}
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
	for i := 0; ; i++ {
		next := l.due(i, b.nodes)
		if next.after >= b.last || time.Since(start) >= b.last {
			return nil
		}
		if wait := time.Until(start.Add(next.after)); wait > 0 {
			if err := backoff.Pause(ctx, wait); err != nil {
				return err
			}
		}
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			sent := time.Now()
			status, _ := b.region.Get(ctx, b.region.Nodes[next.node], "agents/me", l.key)
			l.mu.Lock()
			l.answers = append(l.answers, answer{sent, next.node, status})
			l.mu.Unlock()
		})
	}
}

// judged counts the requests that were let through and that were refused. Any other answer
// is an error: it would count as neither, and flatter both figures.
func (l *load) judged() (admitted, refused int, err error) {
	failed := 0
	last := 0
	for _, a := range l.answers {
		switch a.status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			refused++
		default:
			failed++
			last = a.status
		}
	}
	if failed > 0 {
		return 0, 0, fmt.Errorf("%s: %d of %d requests failed, the last with status %d (0: no answer)", l.name, failed, len(l.answers), last)
	}
	return admitted, refused, nil
}

// report compares what was let through with what one bucket would have let
// through that had seen the same requests.
func (l *load) report(b *bench) error {
	slices.SortFunc(l.answers, func(x, y answer) int { return x.sent.Compare(y.sent) })
	ideal := fixedShares(l.answers, 1) // one bucket
	admitted, refused, err := l.judged()
	if err != nil {
		return err
	}
	b.Printf("%s: %d requests, %.4g a second, %d admitted, %d refused; one bucket admits %d",
		l.name, len(l.answers), float64(len(l.answers))/b.last.Seconds(), admitted, refused, ideal)
	if l.name == "false_429" {
		b.Printf("%s: with a fixed share each, nodes would refuse %d", l.name, len(l.answers)-fixedShares(l.answers, b.nodes))
		b.Figure(l.name, float64(refused), "answers")
		return nil
	}
	b.Figure(l.name, 100*(float64(admitted)/float64(ideal)-1), "%")
	return nil
}

// fixedShares returns how many of the requests nodes admit that have a bucket each,
// of an equal share of the limit; one node has one bucket that sees them all.
func fixedShares(answers []answer, nodes int) (admitted int) {
	buckets := make([]ratelimit.Account, nodes)
	for _, a := range answers {
		if got, _ := buckets[a.node%nodes].Take(limit/nodes, a.sent.UnixMicro()); got.Allowed {
			admitted++
		}
	}
	return admitted
}

// asked returns how often nodes have asked the origin for a key or a view.
func (b *bench) asked(ctx context.Context) (sum float64, err error) {
	for _, n := range b.region.Nodes {
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
	_, text, err := fleet.Send(ctx, b.region.Client, url+"/metrics", nil, nil)
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
