package rollout

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// orderAt returns what the i-th node of a rollout is to run.
func orderAt(r *store.Rollout, i int) wire.Order {
	o := wire.Order{Run: r.Nodes[i].Before, Rollout: r.ID}
	if percent := percentAt(r, i); percent > 0 {
		o.Candidate, o.Percent = r.Digest, percent
	}
	return o
}

// percentAt returns how many percent of its requests the i-th node of a rollout
// gives to the release.
func percentAt(r *store.Rollout, i int) int {
	switch {
	case r.State != store.RollingOut || i >= r.Reached(r.Stage):
		return 0
	case r.Trying && i >= r.Reached(r.Stage-1):
		return r.Canary
	}
	return 100
}

// obeys reports whether a node's status is what the order asks for, or as near to
// it as the node will come.
func obeys(s wire.Status, o wire.Order) bool {
	if s.Running == nil || o.RolledBack != "" && s.RolledBack != nil && *s.RolledBack != o.RolledBack {
		return false
	}
	trial := s.Candidate
	if s.Running.Digest != o.Run {
		// A node reports a release that it cannot run as its candidate.
		return trial != nil && trial.Digest == o.Run && trial.Rollout == o.Rollout
	}
	if o.Candidate == "" {
		return trial == nil
	}
	return trial != nil && trial.Digest == o.Candidate && trial.Rollout == o.Rollout &&
		(trial.State != wire.ReleaseReady || trial.Percent == o.Percent)
}

// sortNodes puts nodes into the order in which a release reaches them: connected
// nodes first, and among equals by a hash that differs for each release, so that
// the first to try is not always the same node.
func sortNodes(digest string, nodes []store.RolloutNode, connected func(id string) bool) {
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

// begin sets a rollout to its first step.
func begin(r *store.Rollout, connected func(id string) bool) {
	r.State, r.Stage, r.Trying = store.RollingOut, 0, r.Canary > 0
	noteOrdered(r, connected)
}

// look holds the reports and times by which an origin decides about the next step of
// a rollout.
type look struct {
	reports map[string]replication.Report
	tally   *tally               // of the rollout by the reports
	now     time.Time            // by the origin's own clock
	shared  time.Time            // by the clock of all origins, which pauses are measured by
	watched time.Time            // when this process saw the step's pause begin, by its own clock; zero: it did not
	began   time.Time            // when the origin began to hear nodes
	spoke   map[string]time.Time // when nodes that it does not hear spoke to any origin, by the clock of all
	why     string               // the reason to roll the release back; "": none
}

// advance takes a rollout as far as a look lets it go. It changes only r, and
// reports whether it did.
func advance(r *store.Rollout, l look) (changed bool) {
	switch r.State {
	case store.RollingOut:
		if why := cmp.Or(l.why, refusal(r, l), l.nobody(r)); why != "" {
			rollBack(r, why, l.shared)
			return true
		}
		for {
			if len(l.tally.fresh) > 0 { // the step reaches them, or they have connected since
				noteOrdered(r, func(id string) bool { return l.reports[id].Connected })
				l.tally = count(r, l.reports)
				changed = true
			}
			if !nextStep(r, l) {
				break
			}
			changed = true
			if r.State != store.RollingOut {
				break
			}
			l.tally = count(r, l.reports) // the step reached other nodes
		}
	case store.RollingBack:
		switch {
		case l.shared.Before(r.BackSince): // the clock was put back: who was heard since is not known
			r.BackSince = l.shared
		case isOver(r, l):
			r.State = store.RolledBack
		default:
			return false
		}
		return true
	}
	return changed
}

// isOver reports whether every node of a rollback runs again what it ran before, and has said
// so since it was ordered to if the release had reached it. Such nodes that are away are waited
// for until they are gone.
func isOver(r *store.Rollout, l look) bool {
	if len(l.tally.behind) > 0 {
		return false
	}
	for id, at := range l.awaited(r) {
		if l.hears(id) || !l.gone(at) {
			return false
		}
	}
	for i, n := range r.Nodes {
		at := l.reports[n.ID]
		if at.Connected && !r.HeardBack(i, l.shared.Add(at.At.Sub(l.now))) {
			return false // it may have been told to open the release since
		}
	}
	return true
}

// awaited returns the nodes that are away and that the release has reached, with their last
// reports. A node whose build is too old to be given orders counts as away, though it is heard,
// and nobody waits for it.
func (l look) awaited(r *store.Rollout) iter.Seq2[string, replication.Report] {
	return func(yield func(string, replication.Report) bool) {
		reached := r.Reached(r.Stage)
		for i := range l.tally.away {
			at := l.reports[r.Nodes[i].ID]
			tooOld := !at.At.IsZero() && at.Status.Running == nil
			if i < reached && !tooOld && !yield(r.Nodes[i].ID, at) {
				return
			}
		}
	}
}

// hears reports whether another origin process has heard a node within lostMost which this one
// does not: their NATS servers may have lost each other. A time far ahead was written by a
// clock that was wrong, and says nothing.
func (l look) hears(id string) bool {
	at, spoke := l.spoke[id]
	return spoke && l.shared.Sub(at).Abs() < lostMost
}

// gone reports whether a node that is not connected is waited for no longer. An
// origin that has just started has heard nobody yet, and gives each node as long
// as one that it has heard.
func (l look) gone(at replication.Report) bool {
	last := at.At
	if last.Before(l.began) {
		last = l.began
	}
	return l.now.Sub(last) >= lostMost
}

// knowsNodes reports whether this process has read which nodes of a rollout are enrolled. They
// may have been enrolled by another shortly before the rollout began.
func (l look) knowsNodes(r *store.Rollout) bool {
	return l.shared.Sub(r.CreatedAt) >= replication.HeartbeatTimeout
}

// nobody returns the reason to roll back a release that no node is left to run; "" while one is.
func (l look) nobody(r *store.Rollout) string {
	if l.tally.enrolled > 0 || !l.knowsNodes(r) {
		return ""
	}
	return "every node of the rollout is revoked"
}

// unheard reports whether a node that the release has reached may be connected although it
// is not heard here: another origin process hears it, or this one has not listened for as long as
// a connected node may be silent.
func (l look) unheard(r *store.Rollout) bool {
	starting := l.now.Sub(l.began) < replication.HeartbeatTimeout
	for id, at := range l.awaited(r) {
		if l.hears(id) || starting && at.At.Before(l.began) {
			return true
		}
	}
	return false
}

// isBack reports whether a node runs again what it ran before, or reports that it
// cannot.
func isBack(s wire.Status, before string) bool {
	trial := s.Candidate
	if s.Running != nil && s.Running.Digest == before {
		return trial == nil
	}
	return trial != nil && trial.Digest == before && trial.State.Ended()
}

// rollBack makes every node run again what it ran before. at is by the clock of all origins.
func rollBack(r *store.Rollout, why string, at time.Time) {
	r.State, r.Reason, r.Trying, r.Since, r.BackSince = store.RollingBack, wire.CutReason(why), false, time.Time{}, at
}

// refusal returns why a node refused or withdrew the release; "" when none did.
func refusal(r *store.Rollout, l look) string {
	i, any := first(l.tally.refused)
	if !any {
		return ""
	}
	id := r.Nodes[i].ID
	trial := l.reports[id].Status.Candidate
	return fmt.Sprintf("node %s: %s: %s", id, trial.State, trial.Reason)
}

// nextStep takes one step, if the one before has been watched for long enough and
// no node is lost.
func nextStep(r *store.Rollout, l look) bool {
	if l.tally.reached == 0 && l.knowsNodes(r) {
		nextStage(r) // nobody can serve this one
		return true
	}
	if r.Since.IsZero() {
		if !l.serves(r) {
			return false
		}
		r.Since = l.shared
		noteServed(r, l.reports)
		return true
	}
	if l.shared.Before(r.Since) { // the clock was put back: for how long the step was watched is not known
		r.Since = l.shared
		return true
	}
	if l.shared.Sub(r.Since) < r.Pause || !l.watched.IsZero() && l.now.Sub(l.watched) < r.Pause {
		return false
	}
	if !l.serves(r) {
		return false
	}
	nextStage(r)
	return true
}

// serves reports whether the nodes that the release has reached give it their share of
// requests, as far as they are connected, and none of them is lost.
func (l look) serves(r *store.Rollout) bool {
	return l.tally.serves() && len(l.tally.lost) == 0 && !l.unheard(r)
}

// nextStage has the nodes of a stage give the release all requests, or goes on to the next
// stage that adds nodes; after the last one the rollout is done.
func nextStage(r *store.Rollout) {
	r.Since = time.Time{}
	if r.Trying {
		r.Trying = false
		return
	}
	reached := r.Reached(r.Stage)
	for r.Stage+1 < len(r.Stages) {
		r.Stage++
		if r.Reached(r.Stage) > reached {
			r.Trying = r.Canary > 0
			return
		}
	}
	r.State = store.Done
}

// pause measures a step's pause by the monotonic clock of this process, which nobody sets.
type pause struct {
	rollout string // "": none was seen yet
	since   time.Time
	from    time.Time
}

// see notes how a rollout is at now, and returns when the pause of its step began, zero for
// one that may have begun before this process ran.
func (p *pause) see(r *store.Rollout, now time.Time) (from time.Time) {
	switch {
	case p.rollout == "":
		*p = pause{rollout: r.ID, since: r.Since}
	case p.rollout != r.ID || !p.since.Equal(r.Since):
		*p = pause{r.ID, r.Since, now}
	}
	return p.from
}

// ready reports whether a node is connected and can answer by the release.
func ready(r *store.Rollout, at replication.Report) bool {
	trial := at.Status.Candidate
	return at.Connected && trial != nil && trial.Digest == r.Digest && trial.Rollout == r.ID && trial.State == wire.ReleaseReady
}

// noteServed marks the nodes that give the release its share of requests.
func noteServed(r *store.Rollout, reports map[string]replication.Report) {
	r.Nodes = slices.Clone(r.Nodes) // which the rollout that was read shares
	for i := range r.Nodes {
		if percentAt(r, i) > 0 && ready(r, reports[r.Nodes[i].ID]) {
			r.Nodes[i].Served = true
		}
	}
}

// noteOrdered marks the nodes that the release has reached and that are connected, which are
// told to open it.
func noteOrdered(r *store.Rollout, connected func(id string) bool) {
	r.Nodes = slices.Clone(r.Nodes) // which the rollout that was read shares
	for i := range r.Nodes {
		if percentAt(r, i) > 0 && connected(r.Nodes[i].ID) {
			r.Nodes[i].Ordered = true
		}
	}
}
