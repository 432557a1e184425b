package wire

// Order tells a node which releases to run. It says all there is to say, so that
// one that is lost or comes twice does no harm: the origin tells it again for as
// long as the node's Status differs.
//
// A digest names the manifest of a release, "sha256:" and 64 hexadecimal digits.
// The node trusts nothing here but the name: what it runs is signed by a key of
// its own configuration.
type Order struct {
	Head
	// Run is the release to run; "" is the modules of the node's own disk.
	Run string `json:"run"`
	// Candidate is the release that is tried beside it; "" is none.
	Candidate string `json:"candidate,omitempty"`
	// Percent of the requests that the candidate answers, 0 to 100.
	Percent int `json:"percent,omitempty"`
	// Rollout names the attempt that the order is part of. A candidate that failed
	// is tried again only by another attempt.
	Rollout string `json:"rollout,omitempty"`
}

// ReleaseState is how far a candidate is.
type ReleaseState string

// States of a candidate, in order; the last two are ends.
const (
	ReleaseFetching  ReleaseState = "fetching"  // its parts are being asked for
	ReleasePreparing ReleaseState = "preparing" // verified; being compiled, its images taken
	ReleaseSmoke     ReleaseState = "smoke"     // answering made-up requests
	ReleaseReady     ReleaseState = "ready"     // answers its percentage of requests
	ReleaseRefused   ReleaseState = "refused"   // not signed, damaged, too old, or not fit to run
	ReleaseFailed    ReleaseState = "failed"    // withdrawn by the node: it did worse than the running one
)

// Ended tells whether a candidate in state s will answer no request.
func (s ReleaseState) Ended() bool { return s == ReleaseRefused || s == ReleaseFailed }

// ReleaseStatus is how a node is with one release.
type ReleaseStatus struct {
	Digest  string `json:"digest"` // "": the modules of the node's own disk
	Version string `json:"version,omitempty"`

	// Of a candidate:
	State   ReleaseState `json:"state,omitempty"`
	Reason  string       `json:"reason,omitempty"` // why it was refused, failed, or waits
	Percent int          `json:"percent,omitempty"`
	Rollout string       `json:"rollout,omitempty"`

	// Counts since the release was opened here; nil before.
	Counts *ReleaseCounts `json:"counts,omitempty"`
}

// ReleaseCounts are what one release has answered.
type ReleaseCounts struct {
	Traffic
	// Failures are calls that a module did not answer, by host.Reason: only those
	// that are the module's doing.
	Failures map[string]uint64 `json:"failures,omitempty"`
}

// Failed is the sum of the failures.
func (c ReleaseCounts) Failed() (sum uint64) {
	for _, n := range c.Failures {
		sum += n
	}
	return sum
}

// Plus adds counts of two nodes, or of two windows.
func (c ReleaseCounts) Plus(d ReleaseCounts) ReleaseCounts {
	return c.join(d, func(a, b uint64) uint64 { return a + b })
}

// Minus is what was counted after before. A counter that is smaller than it was
// has begun anew, and counts as it is.
func (c ReleaseCounts) Minus(before ReleaseCounts) ReleaseCounts {
	if c.Requests < before.Requests {
		return c
	}
	return c.join(before, func(a, b uint64) uint64 { return a - min(a, b) })
}

func (c ReleaseCounts) join(d ReleaseCounts, by func(a, b uint64) uint64) ReleaseCounts {
	sum := ReleaseCounts{Traffic: Traffic{
		Requests: by(c.Requests, d.Requests), Errors: by(c.Errors, d.Errors), Limited: by(c.Limited, d.Limited),
		Latency: make([]uint64, LatencyBuckets),
	}}
	at := func(h []uint64, i int) uint64 {
		if i < len(h) {
			return h[i]
		}
		return 0
	}
	for i := range sum.Latency {
		sum.Latency[i] = by(at(c.Latency, i), at(d.Latency, i))
	}
	for _, failures := range []map[string]uint64{c.Failures, d.Failures} {
		for reason := range failures {
			if sum.Failures == nil {
				sum.Failures = make(map[string]uint64)
			}
			sum.Failures[reason] = by(c.Failures[reason], d.Failures[reason])
		}
	}
	return sum
}
