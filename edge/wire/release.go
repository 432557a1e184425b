package wire

import "strings"

// Order is the origin's instruction to a node which releases to run. Each Order
// is complete, so one that is lost or arrives twice does no harm: the origin
// sends it again for as long as the node's Status differs from it.
//
// A digest names the manifest of a release: "sha256:" and 64 hexadecimal digits.
// A node runs a release only if one of the keys of its own configuration has
// signed it.
type Order struct {
	Head
	// Run is the release to run; "" means the modules on the node's own disk.
	Run string `json:"run"`
	// Candidate is the release to try beside it; "" means none.
	Candidate string `json:"candidate,omitempty"`
	// Percent is the share of requests that the candidate answers, 0 to 100.
	Percent int `json:"percent,omitempty"`
	// Rollout names the rollout that the order belongs to. A candidate that failed
	// is tried again only in another rollout.
	Rollout string `json:"rollout,omitempty"`
	// RolledBack is the release of the newest rollout, if that was rolled back. No restart of
	// the node runs it until it is ordered again. Earlier origins do not say it.
	RolledBack string `json:"rolled_back,omitempty"`
}

// ReleaseState is the state of a candidate on a node.
type ReleaseState string

// States of a candidate, in order; the last two are final.
const (
	ReleaseFetching  ReleaseState = "fetching"  // its blobs are being fetched
	ReleasePreparing ReleaseState = "preparing" // verified; its modules are being compiled and their images taken
	ReleaseSmoke     ReleaseState = "smoke"     // answering the smoke test's requests
	ReleaseReady     ReleaseState = "ready"     // answers its percentage of requests
	ReleaseRefused   ReleaseState = "refused"   // not signed, damaged, too old, or not fit to run
	ReleaseFailed    ReleaseState = "failed"    // withdrawn by the node: worse than the running release
)

// Ended reports whether a candidate in state s has ended and so answers no
// further request.
func (s ReleaseState) Ended() bool { return s == ReleaseRefused || s == ReleaseFailed }

// ReleaseStatus describes one release on a node.
type ReleaseStatus struct {
	Digest  string `json:"digest"` // "": the modules on the node's own disk
	Version string `json:"version,omitempty"`

	// Set for a candidate only:
	State   ReleaseState `json:"state,omitempty"`
	Reason  string       `json:"reason,omitempty"` // why it was refused, failed or is waiting; see CutReason
	Percent int          `json:"percent,omitempty"`
	Rollout string       `json:"rollout,omitempty"`

	// Counts since the release was opened on this node; nil before that.
	Counts *ReleaseCounts `json:"counts,omitempty"`
}

// MaxReason bounds the reason of a status and of a rollback, in bytes: lists have it, and an
// error may quote much of a release.
const MaxReason = 1000

// CutReason returns at most MaxReason bytes of a reason, as valid UTF-8.
func CutReason(reason string) string {
	const cut = "…"
	if len(reason) > MaxReason {
		reason = reason[:MaxReason-len(cut)] + cut
	}
	return strings.ToValidUTF8(reason, "")
}

// States of a release that answers requests of a node, as the admin API and metrics have
// them.
const (
	StateOwnModules = "own_modules" // the modules of the node's own disk
	StateServing    = "serving"
	StateRollingOut = "rolling_out" // it is a candidate: a rollback would undo it
)

// Serving returns the release that answers most requests of a node, and the percentage
// that it answers: Running, or Candidate from half of the requests on. It returns nil if
// the node is too old to say.
func (s *Status) Serving() (r *ReleaseStatus, percent int) {
	candidatePercent := 0
	if c := s.Candidate; c != nil && c.State == ReleaseReady {
		candidatePercent = c.Percent
	}
	if candidatePercent >= 50 {
		return s.Candidate, candidatePercent
	}
	return s.Running, 100 - candidatePercent
}

// ReleaseCounts counts the answers of one release.
type ReleaseCounts struct {
	Traffic
	// Failures counts, by host.Reason, the calls that a module failed to answer
	// through a fault of its own.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// Outside counts the errors with a cause outside the modules: the origin or a disk was
	// away, or the node was busy.
	Outside uint64 `json:"outside,omitempty"`
}

// Own returns the counts without the errors that had their cause outside the modules.
func (c ReleaseCounts) Own() ReleaseCounts {
	c.Errors -= min(c.Errors, c.Outside) // they are not counted at one moment
	c.Outside = 0
	return c
}

// Failed returns the sum of the failures.
func (c ReleaseCounts) Failed() (sum uint64) {
	for _, n := range c.Failures {
		sum += n
	}
	return sum
}

// Plus returns the sum of the counts of two nodes or two windows.
func (c ReleaseCounts) Plus(d ReleaseCounts) ReleaseCounts {
	return c.combine(d, func(a, b uint64) uint64 { return a + b })
}

// Minus returns what was counted since before. If c counts fewer requests than
// before, the node has restarted its counters and Minus returns c. A counter that lags
// behind the others, since they are not read at one instant, counts nothing.
func (c ReleaseCounts) Minus(before ReleaseCounts) ReleaseCounts {
	if c.Requests < before.Requests {
		return c
	}
	return c.combine(before, func(a, b uint64) uint64 { return a - min(a, b) })
}

func (c ReleaseCounts) combine(d ReleaseCounts, by func(a, b uint64) uint64) ReleaseCounts {
	sum := ReleaseCounts{Traffic: Traffic{
		Requests: by(c.Requests, d.Requests), Errors: by(c.Errors, d.Errors), Limited: by(c.Limited, d.Limited),
		Latency: make([]uint64, LatencyBuckets),
	}, Outside: by(c.Outside, d.Outside)}
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
