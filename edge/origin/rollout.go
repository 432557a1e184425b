package origin

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// report is what an origin knows of a node at one moment.
type report struct {
	connected bool
	status    wire.Status
}

// orderOf is what a node is to run, by the rollout that is under way (nil: none)
// and what is written down for it and for all. told is false for a node that
// nothing was ever decided about.
func orderOf(node string, r *store.Rollout, wants map[string]string) (o wire.Order, told bool) {
	if r != nil {
		for i, n := range r.Nodes {
			if n.ID != node {
				continue
			}
			o = wire.Order{Run: n.Before, Rollout: r.ID}
			if percent := percentAt(r, i); percent > 0 {
				o.Candidate, o.Percent = r.Digest, percent
			}
			return o, true
		}
	}
	run, told := wants[node]
	if !told {
		run, told = wants[""]
	}
	return wire.Order{Run: run}, told
}

// percentAt is how many of its requests the i-th node of a rollout gives the
// release, of 100.
func percentAt(r *store.Rollout, i int) int {
	switch {
	case r.State != store.RollingOut || i >= r.Reached(r.Stage):
		return 0
	case r.Trying && i >= r.Reached(r.Stage-1):
		return r.Canary
	}
	return 100
}

// obeys tells whether a node's status is what the order asks for, or as near to
// it as the node will come.
func obeys(s wire.Status, o wire.Order) bool {
	if s.Running == nil {
		return false
	}
	trial := s.Candidate
	if s.Running.Digest != o.Run {
		// What it cannot run, it says.
		return trial != nil && trial.Digest == o.Run && trial.Rollout == o.Rollout
	}
	if o.Candidate == "" {
		return trial == nil
	}
	return trial != nil && trial.Digest == o.Candidate && trial.Rollout == o.Rollout &&
		(trial.State != wire.ReleaseReady || trial.Percent == o.Percent)
}

// inTurn sorts nodes into the order in which a release reaches them: those that
// are connected first, and else by a hash that is another for each release, so
// that it is not always the same node that tries first.
func inTurn(digest string, nodes []store.RolloutNode, connected func(id string) bool) {
	rank := func(n store.RolloutNode) (away int, hash [32]byte) {
		if !connected(n.ID) {
			away = 1
		}
		return away, sha256.Sum256([]byte(digest + n.ID))
	}
	slices.SortFunc(nodes, func(a, b store.RolloutNode) int {
		awayA, hashA := rank(a)
		awayB, hashB := rank(b)
		return cmp.Or(awayA-awayB, slices.Compare(hashA[:], hashB[:]))
	})
}

// beginning sets a rollout to its first step.
func beginning(r *store.Rollout) {
	r.State, r.Stage, r.Trying = store.RollingOut, 0, r.Canary > 0
}

// advance takes a rollout as far as the nodes' reports let it go. why is what
// speaks against the release, "" for nothing. It changes nothing but r, and
// tells whether it did.
func advance(r *store.Rollout, why string, reports map[string]report, now time.Time) (changed bool) {
	switch r.State {
	case store.RollingOut:
		if why == "" {
			why = refusal(r, reports)
		}
		if why != "" {
			rollBack(r, why)
			return true
		}
		for step(r, reports, now) {
			changed = true
			if r.State != store.RollingOut {
				break
			}
		}
	case store.RollingBack:
		for _, n := range r.Nodes {
			at := reports[n.ID]
			if at.connected && !isBack(at.status, n.Before) {
				return false
			}
		}
		r.State = store.RolledBack
		return true
	}
	return changed
}

// isBack tells whether a node runs again what it ran before, or says that it
// cannot.
func isBack(s wire.Status, before string) bool {
	trial := s.Candidate
	if s.Running != nil && s.Running.Digest == before {
		return trial == nil
	}
	return trial != nil && trial.Digest == before && trial.State.Ended()
}

// rollBack has every node run again what it ran before.
func rollBack(r *store.Rollout, why string) {
	r.State, r.Reason, r.Trying, r.Since = store.RollingBack, why, false, time.Time{}
}

// refusal is what a node says that will not run the release; "" when none does.
func refusal(r *store.Rollout, reports map[string]report) string {
	for _, n := range r.Nodes {
		trial := reports[n.ID].status.Candidate
		if trial != nil && trial.Rollout == r.ID && trial.Digest == r.Digest && trial.State.Ended() {
			return fmt.Sprintf("node %s: %s: %s", n.ID, trial.State, trial.Reason)
		}
	}
	return ""
}

// step takes one step, if the one before has been watched for long enough.
func step(r *store.Rollout, reports map[string]report, now time.Time) bool {
	if r.Since.IsZero() {
		if !serves(r, reports) {
			return false
		}
		r.Since = now
		return true
	}
	if now.Sub(r.Since) < r.Pause {
		return false
	}
	r.Since = time.Time{}
	if r.Trying {
		r.Trying = false
		return true
	}
	reached := r.Reached(r.Stage)
	for r.Stage+1 < len(r.Stages) {
		r.Stage++
		if r.Reached(r.Stage) > reached {
			r.Trying = r.Canary > 0
			return true
		}
	}
	r.State = store.Done
	return true
}

// serves tells whether every node that the release has reached, and that is
// connected, gives it the requests that it should; at least one does.
func serves(r *store.Rollout, reports map[string]report) bool {
	any := false
	for i, n := range r.Nodes {
		percent := percentAt(r, i)
		at := reports[n.ID]
		if percent == 0 || !at.connected {
			continue
		}
		trial := at.status.Candidate
		if trial == nil || trial.Digest != r.Digest || trial.Rollout != r.ID || trial.State != wire.ReleaseReady || trial.Percent != percent {
			return false
		}
		any = true
	}
	return any
}
