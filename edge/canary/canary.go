// Package canary judges whether a new release does worse than the one that it is
// to replace. Node and origin judge by the same rule: the node what it sees
// itself, so that it needs nobody, the origin all nodes together.
//
// The rule for failures and errors compares two rates. Were the releases equally
// good, each of the events seen would be the candidate's with the chance that its
// share of the requests is, whatever the rate: a binomial test with no unknown
// left in it. Its tail is bounded by Chernoff's inequality, exp(-n·KL), which
// errs to the side of the candidate. Only an event makes it more suspect, so
// looking again and again costs nothing beyond the number of events.
package canary

import (
	"fmt"
	"math"
	"time"

	"partneredge/edge/wire"
)

// The rule's constants.
const (
	// fewest events below which nothing is said: a few happen to the best.
	fewest = 5
	// chance with which a candidate that is no worse may be withdrawn, at each
	// event.
	chance = 1e-4
	// times that the candidate must do worse, so that a difference that is sure
	// but small withdraws nothing.
	times = 1.5
	// enough requests of the old release to know its rate by.
	enough = 100
	// tolerated is a rate that withdraws no candidate where the old release has
	// not been asked enough.
	tolerated = 0.01

	// slower is how many buckets above the old release's 95th percentile a
	// request counts as slow: twice as long.
	slower = 2
	// slowest time that is never slow: nobody notices it beside the network, and
	// the first requests of a release pay for its first sandboxes.
	slowest = 5 * time.Millisecond
	// slowShare of the candidate's requests must be slow, at least.
	slowShare = 0.1
)

// Judge judges a candidate by what it answered, what the old release answered in
// the same window, and before it. Latency is compared within the window only,
// for it is the machine's as much as the module's. Why is "" when nothing speaks
// against the candidate.
func Judge(candidate, beside, before wire.ReleaseCounts) (why string) {
	old := beside
	if old.Requests < enough {
		old = old.Plus(before)
	}
	if worse(candidate.Failed(), candidate.Requests, old.Failed(), old.Requests) {
		return said("failed calls", candidate.Failed(), candidate.Requests, old.Failed(), old.Requests)
	}
	if worse(candidate.Errors, candidate.Requests, old.Errors, old.Requests) {
		return said("errors", candidate.Errors, candidate.Requests, old.Errors, old.Requests)
	}
	return latency(candidate, beside)
}

// latency judges by slow requests, which are those that take more than twice as
// long as 19 of 20 took with the old release, and more than a moment.
func latency(candidate, beside wire.ReleaseCounts) string {
	if candidate.Requests < enough || beside.Requests < enough {
		return ""
	}
	bound := max(percentile(beside.Latency, 0.95)+slower, wire.LatencyBucket(slowest))
	if bound >= wire.LatencyBuckets {
		return ""
	}
	slow, slowBefore := above(candidate.Latency, bound), above(beside.Latency, bound)
	if float64(slow) < slowShare*float64(candidate.Requests) || !worse(slow, candidate.Requests, slowBefore, beside.Requests) {
		return ""
	}
	return said("requests slower than "+wire.LatencyBound(bound).Round(100*time.Microsecond).String(),
		slow, candidate.Requests, slowBefore, beside.Requests)
}

// worse tells whether x of n is clearly more often than old of of.
func worse(x, n, old, of uint64) bool {
	switch {
	case x < fewest || n == 0:
		return false
	case of < enough && beyond(x, n, tolerated) >= chance:
		return false
	case of == 0:
		return true
	case float64(x)/float64(n) < times*float64(old)/float64(of):
		return false
	}
	return beyond(x, x+old, float64(n)/float64(n+of)) < chance
}

// beyond bounds the chance that x or more of n events happen where each does
// with probability p.
func beyond(x, n uint64, p float64) float64 {
	share := float64(x) / float64(n)
	if share <= p {
		return 1
	}
	divergence := share * math.Log(share/p)
	if share < 1 {
		divergence += (1 - share) * math.Log((1-share)/(1-p))
	}
	return math.Exp(-float64(n) * divergence)
}

// percentile is the bucket that holds it.
func percentile(h []uint64, q float64) int {
	var total, below uint64
	for _, n := range h {
		total += n
	}
	for i, n := range h {
		if below += n; float64(below) >= q*float64(total) {
			return i
		}
	}
	return len(h) - 1
}

// above sums the buckets after the given one.
func above(h []uint64, bucket int) (sum uint64) {
	for i := bucket + 1; i < len(h); i++ {
		sum += h[i]
	}
	return sum
}

func said(what string, x, n, old, of uint64) string {
	return fmt.Sprintf("%s: %d of %d requests, against %d of %d with the release before", what, x, n, old, of)
}
