package main

import (
	"context"
	"fmt"
	"time"

	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

const (
	limiterRounds = 3
	limiterKeys   = 1_000_000
	keysReported  = 1000 // in one message of a node
	dueEvery      = 10 * time.Millisecond
	reportEvery   = 100 * time.Millisecond
)

// ledger measures what a report of one key costs the origin when 3 000 nodes draw on
// the key, over what it costs with ten.
func (b *bench) ledger(context.Context) error {
	var many, few []float64
	for range limiterRounds {
		few = append(few, costOfReport(10))
		many = append(many, costOfReport(3000))
	}
	b.Printf("a report of a key at ten nodes costs %.0f ns, at 3000 nodes %.0f ns", harness.Median(few), harness.Median(many))
	b.Figure("ledger_3000_over_10", harness.Ratio(many, few), "ratio")
	return nil
}

// costOfReport returns the nanoseconds that a report of one key takes, with the shares
// that it leads to, when each node reports every 100 ms.
func costOfReport(nodes int) float64 {
	var m ratelimit.Merger
	now := time.Now().UnixMicro()
	step := reportEvery.Microseconds() / int64(nodes)
	nextDue := now
	from := make([]ratelimit.Reporter, nodes)
	for i := range from {
		from[i] = ratelimit.Reporter{Node: fmt.Sprintf("node_%05d", i), Boot: "boot"}
	}
	report := func(i int) {
		r := ratelimit.Report{Limit: 1_000_000, Spent: int64(i/nodes + 1)}
		m.Merge(from[i%nodes], map[string]ratelimit.Report{"key": r}, now)
		if now += max(step, 1); now >= nextDue {
			m.Due(now)
			nextDue = now + dueEvery.Microseconds()
		}
	}
	for i := range 2 * nodes { // each node is known before
		report(i)
	}
	n := 0
	began := time.Now()
	for time.Since(began) < time.Second {
		report(2*nodes + n)
		n++
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

// limiter measures for how long a report waits while the limiter forgets a million
// keys that nobody uses any more.
func (b *bench) limiter(context.Context) error {
	var stalls []float64
	for range limiterRounds {
		stalls = append(stalls, harness.Milliseconds(longestWait()))
	}
	b.Printf("the longest waits for the limiter of %d keys: %.2f ms", limiterKeys, stalls)
	b.Figure("limiter_stall_ms", harness.Median(stalls), "ms")
	return nil
}

func longestWait() (longest time.Duration) {
	var m ratelimit.Merger
	now := time.Now().UnixMicro()
	from := ratelimit.Reporter{Node: "node", Boot: "boot"}
	for i := 0; i < limiterKeys; {
		reports := make(map[string]ratelimit.Report, keysReported)
		for range keysReported {
			reports[fmt.Sprintf("key_%07d", i)] = ratelimit.Report{Limit: 100, Spent: 1}
			i++
		}
		m.Merge(from, reports, now)
		m.Due(now)
	}
	now += (20 * time.Minute).Microseconds()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Forget(now)
	}()
	other := ratelimit.Reporter{Node: "other", Boot: "boot"}
	for spent := int64(1); ; spent++ {
		began := time.Now()
		m.Merge(other, map[string]ratelimit.Report{"used": {Limit: 100, Spent: spent}}, now)
		longest = max(longest, time.Since(began))
		select {
		case <-done:
			return longest
		default:
		}
	}
}
