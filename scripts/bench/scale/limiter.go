package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"partneredge/edge/origin/replication/spending"
	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

const (
	limiterRounds = 3
	limiterKeys   = 1_000_000
	keysReported  = 1000 // in one message of a node
	dueEvery      = spending.SharePause
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

// limiter measures for how long a report waits while the limiter of a million keys
// forgets those that nobody uses any more, a fifth of them at a time: the median of the
// rounds' longest waits.
func (b *bench) limiter(context.Context) error {
	const rounds = 5
	var m ratelimit.Merger
	began := time.Now().UnixMicro()
	from := ratelimit.Reporter{Node: "node", Boot: "boot"}
	age := (20 * time.Minute).Microseconds()
	for i := 0; i < limiterKeys; {
		reports := make(map[string]ratelimit.Report, keysReported)
		at := began + int64(i/(limiterKeys/rounds))*age
		for range keysReported {
			reports[fmt.Sprintf("key_%07d", i)] = ratelimit.Report{Limit: 100, Spent: 1}
			i++
		}
		m.Merge(from, reports, at)
		m.Due(at)
	}
	runtime.GC()
	stalls := make([]float64, rounds)
	for i := range stalls {
		stalls[i] = harness.Milliseconds(longestWait(&m, began+int64(i+1)*age))
	}
	b.Printf("the longest waits for the limiter of %d keys: %.2f ms", limiterKeys, stalls)
	b.Figure("limiter_stall_ms", harness.Median(stalls), "ms")
	return nil
}

// longestWait returns the longest that a report takes while m forgets.
func longestWait(m *ratelimit.Merger, now int64) (longest time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Forget(now)
	}()
	other := ratelimit.Reporter{Node: "other", Boot: "boot"}
	for spent := now; ; spent++ {
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
