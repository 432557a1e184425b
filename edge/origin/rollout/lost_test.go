package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// steps has the origin look every second of a time.
func (c *cluster) steps(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(time.Second)
		c.advance()
	}
}

// TestDeadNodesEndARollout has every node that gets a release die 15 s later, for
// several pauses: the release goes back from those of the first stage alone.
func TestDeadNodesEndARollout(t *testing.T) {
	for _, pause := range []time.Duration{20 * time.Second, time.Minute, time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			c := newCluster(100, func(r *store.Rollout) { r.Pause = pause })
			served := make(map[string]time.Time)
			for end := c.now.Add(4*pause + 2*lostMost); c.rollout.State == store.RollingOut && c.now.Before(end); c.steps(time.Second) {
				for i, n := range c.rollout.Nodes {
					if since, got := served[n.ID]; got && c.now.Sub(since) >= 15*time.Second {
						c.leave(n.ID)
					} else if !got && percentAt(&c.rollout, i) > 0 {
						c.obey(n.ID)
						served[n.ID] = c.now
					}
				}
			}
			if len(served) != 1 || c.rollout.State != store.RollingBack || !strings.Contains(c.rollout.Reason, "node_000") {
				t.Fatalf("%d nodes got the release, state %s, reason %q", len(served), c.rollout.State, c.rollout.Reason)
			}
			c.steps(lostMost)
			if c.rollout.State != store.RolledBack {
				t.Errorf("the rollback waits for a dead node: %s", c.rollout.State)
			}
		})
	}
}

// TestLossOfAnEarlierStage has a node of the first stage die while the second is
// watched.
func TestLossOfAnEarlierStage(t *testing.T) {
	c := newCluster(10, func(r *store.Rollout) { r.Stages = []int{10, 100} })
	c.all()
	c.steps(c.rollout.Pause + time.Second)
	c.all()
	c.steps(time.Second)
	if c.rollout.Stage != 1 || c.rollout.Since.IsZero() {
		t.Fatalf("stage %d, since %v", c.rollout.Stage, c.rollout.Since)
	}
	c.leave("node_000")
	c.steps(lostMost - time.Second)
	if c.rollout.State != store.RollingOut {
		t.Fatalf("does not hold: %s, %s", c.rollout.State, c.rollout.Reason)
	}
	c.steps(2 * time.Second)
	if c.rollout.State != store.RollingBack {
		t.Errorf("state %s", c.rollout.State)
	}
}

// TestRestartedNodesGoOn has a node leave for less than the hold, and come back
// without the release first: the stage holds, and ends once the node serves again.
func TestRestartedNodesGoOn(t *testing.T) {
	c := newCluster(2, nil)
	c.all()
	c.advance()
	c.leave("node_000")
	c.steps(c.rollout.Pause + 30*time.Second)
	if c.rollout.State != store.RollingOut || c.rollout.Stage != 0 {
		t.Fatalf("state %s, stage %d", c.rollout.State, c.rollout.Stage)
	}
	at := newCluster(2, nil).reports["node_000"] // started again
	c.reports["node_000"] = at
	c.steps(10 * time.Second)
	if c.rollout.Stage != 0 {
		t.Fatal("goes on before the node serves again")
	}
	c.all()
	c.steps(time.Second)
	if c.rollout.State != store.RollingOut || c.rollout.Stage == 0 {
		t.Errorf("state %s, stage %d", c.rollout.State, c.rollout.Stage)
	}
}

// TestRestartedOriginWaitsToHear starts an origin after the pause of a step is
// over: it takes no step before it has heard the nodes, in either direction.
func TestRestartedOriginWaitsToHear(t *testing.T) {
	c := newCluster(100, nil)
	c.all()
	c.advance()
	c.now = c.now.Add(10 * time.Minute)
	heard := c.restart()
	c.steps(lostMost - time.Second)
	if c.rollout.State != store.RollingOut || c.rollout.Stage != 0 {
		t.Fatalf("with no node heard: state %s, stage %d", c.rollout.State, c.rollout.Stage)
	}
	c.reports = heard
	c.steps(time.Second)
	if c.rollout.State != store.RollingOut || c.rollout.Stage != 1 {
		t.Fatalf("with all nodes heard: state %s, stage %d", c.rollout.State, c.rollout.Stage)
	}

	c.all()
	c.advance()
	c.advanceUnless("so it is")
	heard = c.restart()
	c.steps(lostMost - time.Second)
	if c.rollout.State != store.RollingBack {
		t.Fatalf("with no node heard a rollback is over: %s", c.rollout.State)
	}
	c.reports = heard
	c.all()
	c.steps(time.Second)
	if c.rollout.State != store.RolledBack {
		t.Errorf("state %s", c.rollout.State)
	}
}

// TestOriginThatHearsOneNode has an origin hear one of the nodes that the release has reached:
// it neither begins nor ends a step on the word of that node, until it has listened for as long
// as the others may be silent, and for as long as another origin hears them.
func TestOriginThatHearsOneNode(t *testing.T) {
	last := func(pause time.Duration) *cluster {
		c := newCluster(10, func(r *store.Rollout) { r.Stages, r.Pause = []int{10, 100}, pause })
		c.rollout.Stage = 1
		return c
	}
	hearOne := func(c *cluster) {
		heard := c.restart()
		c.reports["node_000"] = heard["node_000"]
	}
	t.Run("begins no step", func(t *testing.T) {
		c := last(time.Minute)
		c.obey("node_000")
		hearOne(c)
		if c.steps(replication.HeartbeatTimeout - time.Second); !c.rollout.Since.IsZero() {
			t.Fatal("the step is watched before the other nodes can have been heard")
		}
		if c.steps(time.Second); c.rollout.Since.IsZero() {
			t.Error("nodes that nobody hears are waited for")
		}
	})
	t.Run("begins no step while another hears the rest", func(t *testing.T) {
		c := last(time.Minute)
		c.obey("node_000")
		hearOne(c)
		for range 2 * lostMost / time.Second {
			c.spoke = make(map[string]time.Time)
			for id := range c.reports {
				c.spoke[id] = c.now
			}
			if c.steps(time.Second); !c.rollout.Since.IsZero() {
				t.Fatal("the step is watched while another origin hears the other nodes")
			}
		}
	})
	t.Run("ends no step", func(t *testing.T) {
		c := last(0)
		c.obey("node_000")
		c.rollout.Since = c.now // by an origin that heard this node alone
		c.rollout.Nodes[0].Served = true
		hearOne(c)
		if c.steps(replication.HeartbeatTimeout - time.Second); c.rollout.State == store.Done {
			t.Fatal("the rollout is done before the other nodes can have been heard")
		}
		if c.steps(time.Second); c.rollout.State != store.Done {
			t.Errorf("nodes that nobody hears are waited for: %s", c.rollout.State)
		}
	})
}

// TestNodesThatDieAsTheyOpenTheRelease has nodes leave between their order and their first
// answer by the release: it goes back, and no rollout is done without them.
func TestNodesThatDieAsTheyOpenTheRelease(t *testing.T) {
	c := newCluster(1, nil)
	c.leave("node_000")
	if c.steps(lostMost - time.Second); c.rollout.State != store.RollingOut {
		t.Errorf("does not hold: %s, %q", c.rollout.State, c.rollout.Reason)
	}
	if c.steps(3 * time.Second); c.rollout.State == store.RollingOut || !strings.Contains(c.rollout.Reason, "node_000") {
		t.Errorf("of the first stage: %s, %q", c.rollout.State, c.rollout.Reason)
	}

	c = newCluster(10, func(r *store.Rollout) { r.Stages = []int{10, 100} })
	c.obey("node_000")
	for c.rollout.Stage == 0 && c.rollout.State == store.RollingOut {
		c.steps(time.Second)
	}
	c.obey("node_000")
	for _, n := range c.rollout.Nodes[1:] {
		c.leave(n.ID)
	}
	if c.steps(lostMost - time.Second); !c.rollout.Since.IsZero() {
		t.Error("the step is watched without the nodes that left")
	}
	if c.steps(3 * time.Second); c.rollout.State == store.RollingOut || !strings.Contains(c.rollout.Reason, "node_001") {
		t.Errorf("of a later stage: %s, %q", c.rollout.State, c.rollout.Reason)
	}
}

// TestNodesThatWereAwayAreNotWaitedFor: a rollout is done without a node that was away when the
// release reached it, and without one that left if its record does not say who was connected.
func TestNodesThatWereAwayAreNotWaitedFor(t *testing.T) {
	for _, old := range []bool{false, true} {
		c := newCluster(2, func(r *store.Rollout) { r.Stages = []int{50, 100} })
		if !old {
			c.leave("node_001")
		}
		for c.rollout.State == store.RollingOut && c.now.Sub(c.began) < time.Hour {
			c.obey("node_000")
			c.steps(time.Second)
			if old && c.rollout.Stage == 1 {
				c.leave("node_001")
				c.rollout.Nodes[1].Ordered = false
			}
		}
		if c.rollout.State != store.Done {
			t.Errorf("a record of an earlier version %t: %s, %q", old, c.rollout.State, c.rollout.Reason)
		}
	}
}

// TestNodesThatComeBackAndDie: nodes that were away when the release reached them get it when they
// are back; if they die as they open it, the release goes back.
func TestNodesThatComeBackAndDie(t *testing.T) {
	c := newCluster(10, func(r *store.Rollout) { r.Stages = []int{10, 100} })
	for i := 1; i < 10; i++ {
		c.leave(fmt.Sprintf("node_%03d", i))
	}
	for c.rollout.Stage == 0 {
		c.obey("node_000")
		c.steps(time.Second)
	}
	for i := 1; i < 10; i++ {
		id := fmt.Sprintf("node_%03d", i)
		at := c.reports[id]
		at.At, at.Connected = c.now, true
		c.reports[id] = at
	}
	c.advance()
	for i := 1; i < 10; i++ {
		c.leave(fmt.Sprintf("node_%03d", i))
	}
	c.obey("node_000")
	c.steps(lostMost + 2*time.Second)
	if c.rollout.State != store.RollingBack || !strings.Contains(c.rollout.Reason, "node_00") {
		t.Errorf("state %s, %q", c.rollout.State, c.rollout.Reason)
	}
}

// TestNodesTooOldForOrdersAreNotWaitedFor: a node whose build reports nothing of releases counts
// as away, though its heartbeats are in the database.
func TestNodesTooOldForOrdersAreNotWaitedFor(t *testing.T) {
	c := newCluster(2, func(r *store.Rollout) { r.Stages = []int{100} })
	c.rollout.Nodes[1].Ordered = false
	old := c.reports["node_001"]
	old.Connected, old.Status = false, wire.Status{}
	for c.rollout.State == store.RollingOut && c.now.Sub(c.began) < time.Hour {
		old.At = c.now
		c.reports["node_001"] = old
		c.spoke = map[string]time.Time{"node_001": c.now}
		c.obey("node_000")
		c.steps(time.Second)
	}
	if c.rollout.State != store.Done {
		t.Errorf("state %s, %q", c.rollout.State, c.rollout.Reason)
	}
}

// TestRevokedNodesAreNotWaitedFor revokes a node that served.
func TestRevokedNodesAreNotWaitedFor(t *testing.T) {
	c := newCluster(2, func(r *store.Rollout) { r.Stages = []int{100} })
	c.all()
	c.advance()
	delete(c.reports, "node_000")
	c.steps(c.rollout.Pause)
	if c.rollout.State != store.Done {
		t.Errorf("state %s, %s", c.rollout.State, c.rollout.Reason)
	}
}

// TestRevokedStageIsPassed revokes the only node that the release has reached, before it serves
// and while it is watched: the next stage that reaches an enrolled node begins.
func TestRevokedStageIsPassed(t *testing.T) {
	for _, watched := range []bool{false, true} {
		c := newCluster(10, func(r *store.Rollout) { r.Canary = 10 })
		if watched {
			c.all()
			c.advance()
		}
		delete(c.reports, "node_000")
		if c.steps(time.Second); c.rollout.Stage == 0 || !c.rollout.Trying {
			t.Errorf("watched %t: at stage %d, trying %t", watched, c.rollout.Stage, c.rollout.Trying)
		}
		for c.rollout.State == store.RollingOut && c.now.Sub(c.began) < time.Hour {
			c.all()
			c.steps(time.Second)
		}
		if c.rollout.State != store.Done {
			t.Errorf("watched %t: %s, %q", watched, c.rollout.State, c.rollout.Reason)
		}
	}
}

// TestRolloutOfRevokedNodes has no node of a rollout be enrolled: it goes back, once the origin
// must know of nodes that were enrolled just before the rollout.
func TestRolloutOfRevokedNodes(t *testing.T) {
	c := newCluster(1, nil)
	c.rollout.CreatedAt = c.now
	delete(c.reports, "node_000")
	if c.steps(replication.HeartbeatTimeout - time.Second); c.rollout.State != store.RollingOut {
		t.Fatalf("a node that may be new counts as revoked: %s", c.rollout.State)
	}
	if c.steps(2 * time.Second); c.rollout.State != store.RolledBack || !strings.Contains(c.rollout.Reason, "revoked") {
		t.Errorf("%s, %q", c.rollout.State, c.rollout.Reason)
	}
}

// TestReasonsAreBounded: the reason of a rollback is kept for good, and may be a node's text.
func TestReasonsAreBounded(t *testing.T) {
	c := newCluster(3, nil)
	c.advanceUnless(strings.Repeat("é", wire.MaxReason))
	if n := len(c.rollout.Reason); n > wire.MaxReason || !utf8.ValidString(c.rollout.Reason) || c.rollout.State != store.RollingBack {
		t.Errorf("%s for a reason of %d bytes: %q", c.rollout.State, n, c.rollout.Reason)
	}
}
