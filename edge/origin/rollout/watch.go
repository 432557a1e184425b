package rollout

import (
	"cmp"

	"partneredge/edge/canary"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// watch compares the answers that a rollout's nodes gave with the release to
// those that they gave in the same window without it. It holds what both releases
// had answered when the window began: with each step, since a step changes how many
// of the requests the release answers, and when an origin first hears a node.
type watch struct {
	rollout string
	step    step
	marks   map[string]mark   // by node
	regions map[string]*sides // the sums of their nodes
}

// step is a step of a rollout. It is watched from when all its nodes serve.
type step struct {
	stage           int
	trying, watched bool
}

// mark holds the counters of one node when the window began.
type mark struct {
	step           step
	digest         string // of the running release
	running, trial wire.ReleaseCounts
	first          bool // of the origin for the node in this rollout
}

// sides holds the counts that are compared.
type sides struct {
	candidate, beside, before counts
	tried                     counts // of the candidate, before the origin heard of it
	nodes                     int
	// mixed counts the nodes whose old release still answers requests; without any, its
	// past says nothing about present latency.
	mixed int
}

// counts holds those of a release's counters that a rollout is judged by. They are added and subtracted in
// place; subtracting takes away just what adding put there.
type counts struct {
	requests, errors, failed uint64
	latency                  latencies
}

type latencies [wire.LatencyBuckets]uint64

// count begins anew with the last reports of a rollout's nodes. Marks of the same
// step stay.
func (w *watch) count(r *store.Rollout, reports map[string]replication.Report) {
	if w.rollout != r.ID {
		w.rollout, w.marks = r.ID, make(map[string]mark)
	}
	w.step = step{r.Stage, r.Trying, !r.Since.IsZero()}
	w.regions = make(map[string]*sides)
	for i, n := range r.Nodes {
		w.add(r, i, reports[n.ID])
	}
}

// replace takes in the next report of the i-th node of a rollout.
func (w *watch) replace(r *store.Rollout, i int, was, is replication.Report) {
	if s, counted := w.sidesOf(r, i, was); counted {
		region := w.regions[was.Node.Region]
		region.combine(&s, minus)
		if region.nodes == 0 {
			delete(w.regions, was.Node.Region)
		}
	}
	w.add(r, i, is)
}

// add adds the counts of the i-th node, whose window begins with its first counts.
func (w *watch) add(r *store.Rollout, i int, at replication.Report) {
	running := at.Status.Running
	if running == nil || running.Counts == nil {
		return
	}
	id := r.Nodes[i].ID
	m, known := w.marks[id]
	next := mark{w.step, running.Digest, *running.Counts, trialOf(r, at), !known}
	restarted := next.running.Requests < m.running.Requests || next.trial.Requests < m.trial.Requests
	if !known || restarted || next.step != m.step || next.digest != m.digest {
		w.marks[id] = next
	}
	s, _ := w.sidesOf(r, i, at)
	region := w.regions[at.Node.Region]
	if region == nil {
		region = &sides{}
		w.regions[at.Node.Region] = region
	}
	region.combine(&s, plus)
}

// sidesOf returns what a report of the i-th node counts for, by the node's mark.
// counted is false for a report without counts. Latency counts only of nodes that answer by
// both releases, and once all nodes of the step do: a node that is slower than others weighs
// as much on either side then.
func (w *watch) sidesOf(r *store.Rollout, i int, at replication.Report) (s sides, counted bool) {
	running := at.Status.Running
	if running == nil || running.Counts == nil {
		return s, false
	}
	m := w.marks[r.Nodes[i].ID]
	s = sides{beside: countsOf(running.Counts.Minus(m.running)), before: countsOf(m.running), nodes: 1}
	percent := percentAt(r, i)
	if percent < 100 {
		s.mixed = 1
	}
	s.candidate = countsOf(trialOf(r, at).Minus(m.trial))
	if !w.step.watched || percent == 0 || percent == 100 || s.candidate.requests == 0 {
		s.candidate.latency, s.beside.latency = latencies{}, latencies{}
	}
	if m.first {
		s.tried = counts{requests: m.trial.Requests, failed: m.trial.Failed()}
	}
	return s, true
}

// trialOf returns what a node has answered by the release of a rollout.
func trialOf(r *store.Rollout, at replication.Report) (c wire.ReleaseCounts) {
	trial := at.Status.Candidate
	if trial != nil && trial.Counts != nil && trial.Digest == r.Digest && trial.Rollout == r.ID {
		c = *trial.Counts
	}
	return c
}

// judge returns the reason to roll the release back, "" for none. Failures are
// counted over all nodes: a module that fails does so anywhere. Latency depends on
// the region as much as on the release, so each region is judged by itself as
// well.
func (w *watch) judge() string {
	var all sides
	for name, s := range w.regions {
		if why := s.judge(); why != "" {
			return "region " + name + ": " + why
		}
		all.combine(s, plus)
	}
	all.candidate.latency, all.beside.latency = latencies{}, latencies{}
	return all.judge()
}

// judge compares what was answered in the window. What was answered before an origin
// heard of it speaks against the release by failed calls alone: of errors nobody knows
// whether the old release had them at the same time.
func (s *sides) judge() string {
	beside, before := s.beside, s.before
	if s.mixed == 0 {
		before.combine(&beside, plus)
		beside = counts{}
	}
	return cmp.Or(
		canary.Judge(s.candidate.judged(), beside.judged(), before.judged()),
		canary.Judge(s.tried.judged(), wire.ReleaseCounts{}, s.before.judged()),
	)
}

func (s *sides) combine(t *sides, by func(a, b uint64) uint64) {
	s.candidate.combine(&t.candidate, by)
	s.beside.combine(&t.beside, by)
	s.before.combine(&t.before, by)
	s.tried.combine(&t.tried, by)
	s.nodes = int(by(uint64(s.nodes), uint64(t.nodes)))
	s.mixed = int(by(uint64(s.mixed), uint64(t.mixed)))
}

func plus(a, b uint64) uint64  { return a + b }
func minus(a, b uint64) uint64 { return a - b }

// countsOf returns what is judged of a release's counts. Errors from outside the modules
// are not: one node may be cut off while the others, which answer by the old release, are
// not. Each node judges its own.
func countsOf(c wire.ReleaseCounts) counts {
	d := counts{requests: c.Requests, errors: c.Own().Errors, failed: c.Failed()}
	copy(d.latency[:], c.Latency)
	return d
}

// judged returns the counts as they are judged, with all failures under one reason.
func (c *counts) judged() wire.ReleaseCounts {
	return wire.ReleaseCounts{
		Traffic:  wire.Traffic{Requests: c.requests, Errors: c.errors, Latency: c.latency[:]},
		Failures: map[string]uint64{"": c.failed},
	}
}

func (c *counts) combine(d *counts, by func(a, b uint64) uint64) {
	c.requests, c.errors, c.failed = by(c.requests, d.requests), by(c.errors, d.errors), by(c.failed, d.failed)
	for i := range c.latency {
		c.latency[i] = by(c.latency[i], d.latency[i])
	}
}
