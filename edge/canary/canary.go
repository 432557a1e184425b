// Package canary judges whether a new release (the candidate) does worse than the
// release that it is to replace. Node and origin use the same rule: a node judges
// what it has counted itself, so that it depends on nobody, and the origin the
// sum of all nodes.
//
// The rule for failures and errors compares two rates. If both releases were
// equally good, each event would be the candidate's with a probability equal to
// its share of the requests, whatever the rate. That makes a binomial test
// without unknown parameters. Its tail is bounded by Chernoff's inequality,
// exp(-n·KL), which errs in favour of the candidate. Only an event can make the
// candidate more suspect, so judging often costs no accuracy.
package canary

import (
	"fmt"
	"math"
	"time"

	"partneredge/edge/wire"
)

// The rule's constants.
const (
	// minEvents is the number of events below which no candidate is withdrawn: any
	// release has a few.
	minEvents = 5
	// falseAlarm bounds the probability, at each event, of withdrawing a candidate
	// that is not worse.
	falseAlarm = 1e-4
	// minRatio is the factor by which the candidate must be worse, so that a difference
	// that is certain but small does not withdraw it.
	minRatio = 1.5
	// minRequests is the number of requests from which on the rate of the old
	// release is known.
	minRequests = 100
	// tolerated is a rate that withdraws no candidate while the rate of the old
	// release is unknown.
	tolerated = 0.01

	// slowBuckets is the number of buckets above the old release's 95th percentile
	// from which on a request counts as slow: it takes twice as long.
	slowBuckets = 2
	// neverSlow is a time that never counts as slow. It does not matter beside the
	// network, and the first requests of a release pay for its first sandboxes.
	neverSlow = 5 * time.Millisecond
	// minSlowShare is the least share of the candidate's requests that must be slow.
	minSlowShare = 0.1
)

// Judge compares the candidate's counts with those of the old release in the same
// window (beside) and earlier (before). Latency is compared within the window
// only, as it depends on the machine as much as on the modules, and so are errors
// that have their cause outside the modules. why is "" if the candidate is not worse.
func Judge(candidate, beside, before wire.ReleaseCounts) (why string) {
	old := beside
	if old.Requests < minRequests {
		candidate, old = candidate.Own(), old.Plus(before).Own()
	}
	if worse(candidate.Failed(), candidate.Requests, old.Failed(), old.Requests) {
		return describe("failed calls", candidate.Failed(), candidate.Requests, old.Failed(), old.Requests)
	}
	if worse(candidate.Errors, candidate.Requests, old.Errors, old.Requests) {
		return describe("errors", candidate.Errors, candidate.Requests, old.Errors, old.Requests)
	}
	return latency(candidate, beside)
}

// latency judges by slow requests: those that take more than twice as long as 19
// of 20 requests of the old release, and longer than neverSlow. They are compared with the
// requests whose latency is given, which may be fewer than all.
func latency(candidate, beside wire.ReleaseCounts) string {
	requests, requestsBefore := above(candidate.Latency, -1), above(beside.Latency, -1)
	if requests < minRequests || requestsBefore < minRequests {
		return ""
	}
	bound := max(percentile(beside.Latency, 0.95)+slowBuckets, wire.LatencyBucket(neverSlow))
	if bound >= wire.LatencyBuckets {
		return ""
	}
	slow, slowBefore := above(candidate.Latency, bound), above(beside.Latency, bound)
	if float64(slow) < minSlowShare*float64(requests) || !worse(slow, requests, slowBefore, requestsBefore) {
		return ""
	}
	return describe("requests slower than "+wire.LatencyBound(bound).Round(100*time.Microsecond).String(),
		slow, requests, slowBefore, requestsBefore)
}

// worse reports whether x events in n requests are clearly more than old in of.
func worse(x, n, old, of uint64) bool {
	switch {
	case x < minEvents || n == 0:
		return false
	case of < minRequests && tail(x, n, tolerated) >= falseAlarm:
		return false
	case of == 0:
		return true
	case float64(x)/float64(n) < minRatio*float64(old)/float64(of):
		return false
	}
	return tail(x, x+old, float64(n)/float64(n+of)) < falseAlarm
}

// tail bounds the probability that x or more of n events happen if each does with
// probability p.
func tail(x, n uint64, p float64) float64 {
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

// percentile returns the bucket of the quantile q.
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

// above returns the sum of the buckets after bucket.
func above(h []uint64, bucket int) (sum uint64) {
	for i := bucket + 1; i < len(h); i++ {
		sum += h[i]
	}
	return sum
}

func describe(what string, x, n, old, of uint64) string {
	return fmt.Sprintf("%s: %d of %d requests, against %d of %d with the release before", what, x, n, old, of)
}
