package rollout

import (
	"partneredge/edge/canary"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// watch compares the answers that a rollout's nodes gave with the release to
// those that they gave in the same window without it. It holds what the running
// releases had answered when the window began: an origin that takes over a
// rollout begins a window of its own.
type watch struct {
	rollout string
	marks   map[string]mark // by node
}

// mark is the counters of one node and release when the window began.
type mark struct {
	digest string
	counts wire.ReleaseCounts
}

// sides are the counts that are compared. mixed says that the old release still
// answers requests; without that, its past says nothing about present latency.
type sides struct {
	candidate, beside, before wire.ReleaseCounts
	mixed                     bool
}

// judge returns the reason to roll the release back, "" for none. Failures are
// counted over all nodes: a module that fails does so anywhere. Latency depends on
// the region as much as on the release, so each region is judged by itself as
// well.
func (w *watch) judge(r *store.Rollout, reports map[string]replication.Report) string {
	if w.rollout != r.ID {
		w.rollout, w.marks = r.ID, make(map[string]mark)
	}
	var all sides
	regions := make(map[string]sides)
	for i, n := range r.Nodes {
		s, region := reports[n.ID].Status, reports[n.ID].Node.Region
		if s.Running == nil || s.Running.Counts == nil {
			continue
		}
		now := *s.Running.Counts
		m, known := w.marks[n.ID]
		if !known || m.digest != s.Running.Digest || now.Requests < m.counts.Requests {
			m = mark{s.Running.Digest, now}
			w.marks[n.ID] = m
		}
		one := sides{beside: now.Minus(m.counts), before: m.counts, mixed: percentAt(r, i) < 100}
		if t := s.Candidate; t != nil && t.Counts != nil && t.Digest == r.Digest && t.Rollout == r.ID {
			one.candidate = *t.Counts
		}
		all = all.plus(one)
		regions[region] = regions[region].plus(one)
	}
	for name, s := range regions {
		if why := s.judge(); why != "" {
			return "region " + name + ": " + why
		}
	}
	all.mixed = false
	return all.judge()
}

func (s sides) judge() string {
	if !s.mixed {
		s.beside, s.before = wire.ReleaseCounts{}, s.before.Plus(s.beside)
	}
	return canary.Judge(s.candidate, s.beside, s.before)
}

func (s sides) plus(t sides) sides {
	return sides{s.candidate.Plus(t.candidate), s.beside.Plus(t.beside), s.before.Plus(t.before), s.mixed || t.mixed}
}
