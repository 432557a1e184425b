package rollout

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// served is an origin and nodes that answer 100 requests a second each, which they count.
type served struct {
	fleet   *fleet
	rollout store.Rollout
	now     time.Time
	old     []answers // by node
	new     []answers
}

type answers struct {
	requests, errors, failed float64
	took                     time.Duration // by each request; 0: its latency is not counted
}

// rates are shares of requests: those that are errors, and those whose call fails.
type rates struct{ errors, failed float64 }

// serve begins a rollout with the steps that edge release rollout takes by default, to
// nodes that have answered for a day.
func serve(nodes int) *served {
	s := &served{now: time.Unix(1_800_000_000, 0), old: make([]answers, nodes), new: make([]answers, nodes)}
	s.rollout = store.Rollout{ID: "rol_1", Digest: "new", Stages: []int{1, 10, 50, 100}, Canary: 10, Pause: 30 * time.Second}
	for i := range nodes {
		s.rollout.Nodes = append(s.rollout.Nodes, store.RolloutNode{ID: fmt.Sprintf("node_%03d", i)})
		s.old[i].requests = 24 * 60 * 60 * 100
	}
	begin(&s.rollout, func(string) bool { return true })
	s.restart()
	return s
}

// restart has an origin start that has heard no node yet.
func (s *served) restart() {
	s.fleet = newFleet()
	s.plan()
}

func (s *served) plan() {
	read := s.rollout
	s.fleet.plan(&read, nil, "")
}

// answer has each node answer for a second.
func (s *served) answer(old, candidate rates) {
	s.now = s.now.Add(time.Second)
	for i := range s.old {
		share := float64(percentAt(&s.rollout, i)) / 100
		s.old[i].add(100*(1-share), old)
		s.new[i].add(100*share, candidate)
	}
}

func (a *answers) add(requests float64, r rates) {
	a.requests += requests
	a.errors += requests * r.errors
	a.failed += requests * r.failed
}

func (a *answers) counts() *wire.ReleaseCounts {
	c := &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: uint64(math.Round(a.requests)), Errors: uint64(a.errors)}}
	if a.took > 0 {
		c.Latency = make([]uint64, wire.LatencyBuckets)
		c.Latency[wire.LatencyBucket(a.took)] = c.Requests
	}
	if a.failed >= 1 {
		c.Failures = map[string]uint64{"trap": uint64(a.failed)}
	}
	return c
}

// look has the origin hear every node and take the steps that are due.
func (s *served) look() {
	for i, n := range s.rollout.Nodes {
		status := wire.Status{Running: &wire.ReleaseStatus{Counts: s.old[i].counts()}}
		if percent := percentAt(&s.rollout, i); percent > 0 {
			status.Candidate = &wire.ReleaseStatus{Digest: "new", Rollout: "rol_1", State: wire.ReleaseReady, Percent: percent, Counts: s.new[i].counts()}
		}
		s.fleet.hear(replication.Change{ID: n.ID, Enrolled: true, Report: replication.Report{Connected: true, Status: status,
			Node: store.Node{ID: n.ID, Region: []string{"eu", "us"}[i%2]}}})
	}
	l := look{reports: s.fleet.reports, tally: s.fleet.tally, now: s.now, shared: s.now, why: s.fleet.watch.judge()}
	if advance(&s.rollout, l) {
		s.plan()
	}
}

// run goes on while the rollout does. during says what the releases answer.
func (s *served) run(during func() (old, candidate rates)) {
	for looks := 0; s.rollout.State == store.RollingOut && looks < 10_000; looks++ {
		s.answer(during())
		s.look()
	}
}

// TestOutagesOfBothReleases has one request in twenty be an error of both releases in each
// step but the last, in which there is no old release to compare with: none goes back.
func TestOutagesOfBothReleases(t *testing.T) {
	for nth := range 2*len(serve(20).rollout.Stages) - 1 {
		stage, trying := nth/2, nth%2 == 0
		s := serve(20)
		s.run(func() (old, candidate rates) {
			if r := s.rollout; r.Stage == stage && r.Trying == trying {
				return rates{errors: 0.05}, rates{errors: 0.05}
			}
			return rates{}, rates{}
		})
		if s.rollout.State != store.Done {
			t.Errorf("an outage at stage %d, trying %t: %s, %q", stage, trying, s.rollout.State, s.rollout.Reason)
		}
	}
}

// TestFailsInAnyStep has the release alone fail one of twenty requests in one step.
func TestFailsInAnyStep(t *testing.T) {
	for nth := range 2 * len(serve(20).rollout.Stages) {
		stage, trying := nth/2, nth%2 == 0
		s := serve(20)
		s.run(func() (old, candidate rates) {
			if r := s.rollout; r.Stage == stage && r.Trying == trying {
				return rates{}, rates{errors: 0.05}
			}
			return rates{}, rates{}
		})
		if r := s.rollout; r.State != store.RollingBack || r.Stage != stage || !strings.Contains(r.Reason, "errors: ") {
			t.Errorf("errors at stage %d, trying %t: %s at stage %d, %q", stage, trying, r.State, r.Stage, r.Reason)
		}
	}
}

// TestRestartAfterAnOutage starts an origin after a minute of a trial that it did not hear.
// Errors, which the old release may have had as well, take nothing back, and failed calls do.
func TestRestartAfterAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name           string
		old, candidate rates
		why            string
	}{
		{"errors of both", rates{errors: 0.05}, rates{errors: 0.05}, ""},
		{"failed calls of one", rates{}, rates{failed: 0.05}, "failed calls: 30 of 6"},
	} {
		s := serve(20)
		s.look()
		for range 60 {
			s.answer(tt.old, tt.candidate)
		}
		s.restart()
		s.run(func() (old, candidate rates) { return rates{}, rates{} })
		if r := s.rollout; tt.why == "" && r.State != store.Done || !strings.Contains(r.Reason, tt.why) {
			t.Errorf("%s: %s, %q", tt.name, r.State, r.Reason)
		}
	}
}

// TestLatencyIsThatOfTheRelease has one node of 40 be slower than the others by both releases,
// which is no fault of the new one, and each node be slower by the new release alone.
func TestLatencyIsThatOfTheRelease(t *testing.T) {
	const fast, slow = 2 * time.Millisecond, 12 * time.Millisecond
	for _, canary := range []int{10, 0} {
		for _, tt := range []struct {
			name                  string
			first, old, candidate time.Duration // of the first node by both, and of the others
			why                   string
		}{
			{"one node is slow", slow, fast, fast, ""},
			{"the release is slow", 0, fast, slow, "requests slower than"},
		} {
			s := serve(40)
			s.rollout.Canary, s.rollout.Trying = canary, canary > 0
			for i := range s.old {
				s.old[i].took, s.new[i].took = tt.old, tt.candidate
			}
			if tt.first > 0 {
				s.old[0].took, s.new[0].took = tt.first, tt.first
			}
			s.restart()
			s.run(func() (old, candidate rates) { return rates{}, rates{} })
			r := s.rollout
			if tt.why == "" || canary == 0 { // without a canary no node answers by both
				if r.State != store.Done {
					t.Errorf("%s, a canary of %d %%: %s, %q", tt.name, canary, r.State, r.Reason)
				}
			} else if r.State != store.RollingBack || r.Stage > 0 || !strings.Contains(r.Reason, tt.why) {
				t.Errorf("%s, a canary of %d %%: %s at stage %d, %q", tt.name, canary, r.State, r.Stage, r.Reason)
			}
		}
	}
}
