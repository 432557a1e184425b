package rollout

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// countAll returns what a fleet's sums are to be, by a walk over all nodes that keeps
// nothing but the marks.
func countAll(f *fleet, marks map[string]mark) (t tally, regions map[string]wire.ReleaseCounts, disobedient []string) {
	t = tally{refused: map[int]struct{}{}, lost: map[int]struct{}{}, away: map[int]struct{}{}, behind: map[int]struct{}{}, fresh: map[int]struct{}{}}
	regions = map[string]wire.ReleaseCounts{}
	r := f.active
	for i, n := range r.Nodes {
		at, enrolled := f.reports[n.ID]
		if !enrolled {
			continue
		}
		t.enrolled++
		if percentAt(r, i) > 0 {
			t.reached++
		}
		serves := ready(r, at) && at.Status.Candidate.Percent == percentAt(r, i)
		switch {
		case percentAt(r, i) == 0 || !at.Connected:
		case serves:
			t.serving++
		default:
			t.missing++
		}
		note := func(set map[int]struct{}, is bool) {
			if is {
				set[i] = struct{}{}
			}
		}
		trial := at.Status.Candidate
		note(t.refused, trial != nil && trial.Rollout == r.ID && trial.Digest == r.Digest && trial.State.Ended())
		note(t.lost, n.Served && !ready(r, at) || n.Ordered && !at.Connected)
		note(t.away, !at.Connected)
		note(t.fresh, percentAt(r, i) > 0 && at.Connected && !n.Ordered)
		note(t.behind, at.Connected && !isBack(at.Status, n.Before))
		if s := at.Status; s.Running != nil && s.Running.Counts != nil {
			var tried wire.ReleaseCounts
			ours := trial != nil && trial.Counts != nil && trial.Digest == r.Digest && trial.Rollout == r.ID
			if ours {
				tried = *trial.Counts
			}
			m, known := marks[n.ID]
			now := mark{step{r.Stage, r.Trying, !r.Since.IsZero()}, s.Running.Digest, *s.Running.Counts, tried, !known}
			if m.step != now.step || m.digest != now.digest || now.running.Requests < m.running.Requests || tried.Requests < m.trial.Requests || !known {
				m = now
				marks[n.ID] = m
			}
			region := at.Node.Region
			own := func(c wire.ReleaseCounts) wire.ReleaseCounts { // with latency where it is compared
				percent, candidate := percentAt(r, i), tried.Minus(m.trial)
				if r.Since.IsZero() || percent == 0 || percent == 100 || candidate.Requests == 0 {
					c.Latency = nil
				}
				return c.Own()
			}
			regions[region+" beside"] = regions[region+" beside"].Plus(own(s.Running.Counts.Minus(m.running)))
			regions[region+" before"] = regions[region+" before"].Plus(m.running.Own())
			if ours {
				regions[region+" candidate"] = regions[region+" candidate"].Plus(own(tried.Minus(m.trial)))
			}
			if m.first {
				regions[region+" tried"] = regions[region+" tried"].Plus(wire.ReleaseCounts{Traffic: wire.Traffic{Requests: m.trial.Requests}, Failures: m.trial.Failures})
			}
		}
	}
	for id, at := range f.reports {
		if order, decided := orderOf(id, r, f.wants); at.Connected && decided && !obeys(at.Status, order) {
			disobedient = append(disobedient, id)
		}
	}
	slices.Sort(disobedient)
	return t, regions, disobedient
}

// watched returns the sums of a watch as countAll has them.
func (w *watch) watched() map[string]wire.ReleaseCounts {
	all := make(map[string]wire.ReleaseCounts)
	for region, s := range w.regions {
		for side, c := range map[string]*counts{" candidate": &s.candidate, " beside": &s.beside, " before": &s.before, " tried": &s.tried} {
			all[region+side] = c.judged()
		}
	}
	return all
}

// equal compares what is judged.
func equal(a, b wire.ReleaseCounts) bool {
	a, b = wire.ReleaseCounts{}.Plus(a), wire.ReleaseCounts{}.Plus(b) // with a bucket for each latency
	return a.Requests == b.Requests && a.Errors == b.Errors && a.Failed() == b.Failed() && slices.Equal(a.Latency, b.Latency)
}

// anyStatus draws the status of a node: of any release, rollout and state, with counts
// that rise, or begin again.
func anyStatus(t *rapid.T) (s wire.Status) {
	if rapid.IntRange(0, 19).Draw(t, "old build") == 0 {
		return s
	}
	counts := func() *wire.ReleaseCounts {
		if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
			return nil
		}
		n := rapid.Uint64Range(0, 50).Draw(t, "requests")
		c := &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: n, Errors: n / 7, Latency: make([]uint64, rapid.SampledFrom([]int{0, 5, wire.LatencyBuckets, wire.LatencyBuckets + 2}).Draw(t, "buckets"))}}
		for i := range c.Latency {
			c.Latency[i] = n * uint64(i%3)
		}
		if n%2 == 0 {
			c.Outside = n / 9
			c.Failures = map[string]uint64{"trap": n / 3, "deadline": n / 5}
		}
		return c
	}
	digest := rapid.SampledFrom([]string{"old", "new", "other"})
	s.Running = &wire.ReleaseStatus{Digest: digest.Draw(t, "runs"), Counts: counts()}
	if rapid.Bool().Draw(t, "tries") {
		s.Candidate = &wire.ReleaseStatus{
			Digest: digest.Draw(t, "tries"), Rollout: rapid.SampledFrom([]string{"rol_1", "rol_1", "rol_0"}).Draw(t, "rollout"),
			Percent: rapid.SampledFrom([]int{5, 100}).Draw(t, "percent"), Counts: counts(),
			State: rapid.SampledFrom([]wire.ReleaseState{wire.ReleaseFetching, wire.ReleaseReady, wire.ReleaseReady, wire.ReleaseReady, wire.ReleaseFailed}).Draw(t, "state"),
		}
	}
	return s
}

// anyPlan draws the state of a rollout over some nodes.
func anyPlan(t *rapid.T, nodes []string) *store.Rollout {
	if rapid.IntRange(0, 9).Draw(t, "none") == 0 {
		return nil
	}
	r := &store.Rollout{
		ID: rapid.SampledFrom([]string{"rol_1", "rol_1", "rol_2"}).Draw(t, "id"), Digest: "new", Stages: []int{10, 50, 100}, Canary: 5,
		State: rapid.SampledFrom([]store.RolloutState{store.RollingOut, store.RollingOut, store.RollingBack}).Draw(t, "state"),
		Stage: rapid.IntRange(0, 2).Draw(t, "stage"), Trying: rapid.Bool().Draw(t, "trying"),
		Since: rapid.SampledFrom([]time.Time{{}, time.Unix(1, 0)}).Draw(t, "since"),
	}
	for _, id := range nodes {
		r.Nodes = append(r.Nodes, store.RolloutNode{ID: id, Before: "old", Served: rapid.Bool().Draw(t, "served"), Ordered: rapid.Bool().Draw(t, "ordered")})
	}
	return r
}

// TestSumsAreFullCounts: whatever nodes report, whoever leaves or joins, whatever step is
// taken and whenever the origin is started again, the sums that are kept are those of a
// look at all nodes.
func TestSumsAreFullCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []string
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			nodes = append(nodes, fmt.Sprint("node_", i))
		}
		f := newFleet()
		f.plan(nil, nil, "")
		marks, rollout := map[string]mark{}, ""
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // a step, by this or another origin
				f.plan(anyPlan(t, nodes[:rapid.IntRange(1, len(nodes)).Draw(t, "listed")]), map[string]string{"": "old", nodes[0]: "other"}, "")
			case 1: // the origin starts again, and the window with it
				heard, active, wants := f.reports, f.active, f.wants
				f, marks = newFleet(), map[string]mark{}
				f.plan(active, wants, "")
				for id, at := range heard {
					f.hear(replication.Change{ID: id, Report: at, Enrolled: true})
				}
			case 2: // a node is revoked
				f.hear(replication.Change{ID: rapid.SampledFrom(nodes).Draw(t, "revoked")})
			default: // one reports, joins or has timed out
				id := rapid.SampledFrom(nodes).Draw(t, "node")
				f.hear(replication.Change{ID: id, Enrolled: true, Report: replication.Report{
					Node:      store.Node{ID: id, Region: rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")},
					Connected: rapid.IntRange(0, 3).Draw(t, "away") > 0, Status: anyStatus(t),
				}})
			}
			if f.active == nil {
				continue
			}
			if rollout != f.active.ID {
				rollout, marks = f.active.ID, map[string]mark{}
			}
			sums, regions, disobedient := countAll(f, marks)
			if !reflect.DeepEqual(*f.tally, sums) {
				t.Fatalf("the tally is %+v, a full count %+v", *f.tally, sums)
			}
			if got := slices.Sorted(maps.Keys(f.disobedient)); !slices.Equal(got, disobedient) {
				t.Fatalf("%v are sent their order, by a full look %v", got, disobedient)
			}
			kept := f.watch.watched()
			for side := range maps.Keys(regions) {
				if !equal(kept[side], regions[side]) {
					t.Fatalf("%s: the sum is %+v, a full count %+v", side, kept[side], regions[side])
				}
				delete(kept, side)
			}
			for side, c := range kept { // a region that is not counted any more has nothing left
				if !equal(c, wire.ReleaseCounts{}) {
					t.Fatalf("%s: %+v is left of nothing", side, c)
				}
			}
		}
	})
}

// TestMixedNodes has the only node that still answers by the old release go over to the
// new one: from then on the past of the old one is judged, and before it is not.
func TestMixedNodes(t *testing.T) {
	f := newFleet()
	report := func(id string) replication.Change {
		return replication.Change{ID: id, Enrolled: true, Report: replication.Report{
			Connected: true, At: time.Unix(1, 0),
			Status: wire.Status{Running: &wire.ReleaseStatus{Digest: "old", Counts: &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: 1}}}},
		}}
	}
	r := &store.Rollout{ID: "rol_1", Digest: "new", State: store.RollingOut, Stages: []int{50, 100}, Nodes: []store.RolloutNode{{ID: "a"}, {ID: "b"}}}
	f.hear(report("a"))
	f.hear(report("b"))
	f.plan(r, nil, "")
	if mixed := f.watch.regions[""].mixed; mixed != 1 {
		t.Errorf("%d nodes are mixed", mixed)
	}
	f.hear(replication.Change{ID: "b"})
	if mixed := f.watch.regions[""].mixed; mixed != 0 {
		t.Errorf("%d nodes are mixed once the only one is revoked", mixed)
	}
}

// TestOutageOfOneNode has the node that answers by the new release alone lose its origin,
// and no other: what it could not answer for that does not speak against the release, and
// what it answered wrongly does.
func TestOutageOfOneNode(t *testing.T) {
	for _, tt := range []struct {
		outside uint64
		want    string
	}{{50, ""}, {20, "errors: 30 of 1000"}} {
		f := newFleet()
		f.plan(&store.Rollout{
			ID: "rol_1", Digest: "new", State: store.RollingOut, Stages: []int{50, 100}, Nodes: []store.RolloutNode{{ID: "a"}, {ID: "b"}},
		}, nil, "")
		for _, answered := range []uint64{1000, 2000} {
			for _, id := range []string{"a", "b"} {
				status := wire.Status{Running: &wire.ReleaseStatus{Digest: "old", Counts: &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: answered}}}}
				if id == "a" && answered > 1000 {
					status.Candidate = &wire.ReleaseStatus{Digest: "new", Rollout: "rol_1", State: wire.ReleaseReady, Percent: 100, Counts: &wire.ReleaseCounts{
						Traffic: wire.Traffic{Requests: 1000, Errors: 50}, Outside: tt.outside,
					}}
				}
				f.hear(replication.Change{ID: id, Enrolled: true, Report: replication.Report{Connected: true, Status: status}})
			}
		}
		if why := f.watch.judge(); tt.want == "" && why != "" || !strings.Contains(why, tt.want) {
			t.Errorf("of 50 errors %d came from outside: %q, want %q", tt.outside, why, tt.want)
		}
	}
}

// TestAllLearnWhatWasRolledBack: a node that runs what it should is sent its order until it has
// noted what was rolled back, for a restart might run that.
func TestAllLearnWhatWasRolledBack(t *testing.T) {
	none, bad, old := "", "bad", (*string)(nil)
	for _, tt := range []struct {
		rolledBack string
		noted      *string
		sent       bool
	}{{"", &none, false}, {"", &bad, false}, {"bad", &none, true}, {"bad", &bad, false}, {"worse", &bad, true}, {"bad", old, false}} {
		f := newFleet()
		f.plan(nil, map[string]string{"": "good"}, tt.rolledBack)
		f.hear(replication.Change{ID: "a", Enrolled: true, Report: replication.Report{
			Connected: true, Status: wire.Status{Running: &wire.ReleaseStatus{Digest: "good"}, RolledBack: tt.noted},
		}})
		if _, sent := f.disobedient["a"]; sent != tt.sent {
			t.Errorf("%+v: it is sent its order: %t", tt, sent)
		}
	}
}
