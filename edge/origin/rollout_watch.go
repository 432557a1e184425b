package origin

import (
	"partneredge/edge/canary"
	"partneredge/edge/wire"
	"partneredge/store"
)

// watch compares what the nodes of a rollout have answered with the release and,
// in the same window, without it. It holds what the running releases had
// answered when the window began: an origin that takes over a rollout begins a
// window of its own.
type watch struct {
	rollout string
	marks   map[string]mark // by node
}

// mark is where a node's counters of one release stood.
type mark struct {
	digest string
	counts wire.ReleaseCounts
}

// sides are the two that are compared. mixed says that the old release answers
// requests still; else what it once did says nothing about how long they take now.
type sides struct {
	candidate, beside, before wire.ReleaseCounts
	mixed                     bool
}

// judge returns what speaks against the release, "" for nothing. Failures are
// those of all nodes together: a module that fails does so anywhere. Latency is a
// region's as much as a release's, so each region is judged by itself as well.
func (w *watch) judge(r *store.Rollout, region func(node string) string, reports map[string]report) string {
	if w.rollout != r.ID {
		w.rollout, w.marks = r.ID, make(map[string]mark)
	}
	var all sides
	regions := make(map[string]sides)
	for i, n := range r.Nodes {
		s := reports[n.ID].status
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
		regions[region(n.ID)] = regions[region(n.ID)].plus(one)
	}
	for name, s := range regions {
		if why := s.verdict(); why != "" {
			return "region " + name + ": " + why
		}
	}
	all.mixed = false
	return all.verdict()
}

func (s sides) verdict() string {
	if !s.mixed {
		s.beside, s.before = wire.ReleaseCounts{}, s.before.Plus(s.beside)
	}
	return canary.Judge(s.candidate, s.beside, s.before)
}

func (s sides) plus(t sides) sides {
	return sides{s.candidate.Plus(t.candidate), s.beside.Plus(t.beside), s.before.Plus(t.before), s.mixed || t.mixed}
}
