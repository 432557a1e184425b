package rollout

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// cluster is nodes that do what they are told, one thing at a time.
type cluster struct {
	rollout store.Rollout
	reports map[string]replication.Report
	now     time.Time
	ahead   time.Duration        // the clock of all origins
	pause   pause                // as the origin has seen it
	began   time.Time            // when the origin was started last
	losses  losses               // that the origin has seen since
	spoke   map[string]time.Time // to another origin
}

func newCluster(nodes int, edit func(*store.Rollout)) *cluster {
	c := &cluster{reports: map[string]replication.Report{}, now: time.Unix(1_800_000_000, 0)}
	c.began = c.now
	c.rollout = store.Rollout{ID: "rol_1", Digest: "new", Stages: []int{1, 10, 50, 100}, Pause: time.Minute}
	for i := range nodes {
		id := fmt.Sprintf("node_%03d", i)
		c.rollout.Nodes = append(c.rollout.Nodes, store.RolloutNode{ID: id, Before: "old"})
		c.reports[id] = replication.Report{Connected: true, Status: wire.Status{Running: &wire.ReleaseStatus{Digest: "old"}}}
	}
	if edit != nil {
		edit(&c.rollout)
	}
	begin(&c.rollout, func(string) bool { return true })
	return c
}

// orderOf returns what a node is to run, by a walk over the rollout (nil: none).
func orderOf(node string, r *store.Rollout, wants map[string]string) (o wire.Order, decided bool) {
	if r != nil {
		for i, n := range r.Nodes {
			if n.ID == node {
				return orderAt(r, i), true
			}
		}
	}
	return (&fleet{wants: wants}).orderOf(node)
}

// obey has a node do all that it is ordered to.
func (c *cluster) obey(id string) {
	order, _ := orderOf(id, &c.rollout, nil)
	at := c.reports[id]
	at.Status = wire.Status{Running: &wire.ReleaseStatus{Digest: order.Run}}
	if order.Candidate != "" {
		at.Status.Candidate = &wire.ReleaseStatus{Digest: order.Candidate, Rollout: order.Rollout, Percent: order.Percent, State: wire.ReleaseReady}
	}
	at.At = c.now
	c.reports[id] = at
}

func (c *cluster) all() {
	for id := range c.reports {
		c.obey(id)
	}
}

// fail has a node end its trial.
func (c *cluster) fail(id string, state wire.ReleaseState) {
	at := c.reports[id]
	at.Status.Candidate = &wire.ReleaseStatus{Digest: "new", Rollout: "rol_1", State: state, Reason: "so it is"}
	c.reports[id] = at
}

// advance has the origin take the steps that are due.
func (c *cluster) advance() bool { return c.advanceUnless("") }

// advanceUnless is advance with a reason to roll the release back.
func (c *cluster) advanceUnless(why string) bool {
	l := look{reports: c.reports, tally: count(&c.rollout, c.reports), now: c.now, shared: c.now.Add(c.ahead), began: c.began, why: why, spoke: c.spoke}
	l.watched = c.pause.see(&c.rollout, c.now)
	defer func() { c.pause.see(&c.rollout, c.now) }()
	if c.rollout.State == store.RollingOut && why == "" {
		l.why = c.losses.judge(&c.rollout, l)
	}
	return advance(&c.rollout, l)
}

// leave has a node vanish, heard for the last time now.
func (c *cluster) leave(id string) {
	at := c.reports[id]
	at.Connected, at.At = false, c.now
	c.reports[id] = at
}

// cut has a node vanish that was heard before.
func (c *cluster) cut(id string) {
	at := c.reports[id]
	at.Connected = false
	c.reports[id] = at
}

// restart has an origin start that has heard no node yet.
func (c *cluster) restart() (before map[string]replication.Report) {
	before, c.reports = c.reports, make(map[string]replication.Report)
	for id := range before {
		c.reports[id] = replication.Report{}
	}
	c.began, c.losses, c.pause = c.now, losses{}, pause{}
	return before
}

// serving counts the nodes that are ordered to give the release requests, and how
// many of them all.
func (c *cluster) serving() (some, all int) {
	for i := range c.rollout.Nodes {
		switch percent := percentAt(&c.rollout, i); {
		case percent == 100:
			all++
			fallthrough
		case percent > 0:
			some++
		}
	}
	return some, all
}

func TestStages(t *testing.T) {
	for _, tt := range []struct {
		name   string
		nodes  int
		edit   func(*store.Rollout)
		stages [][2]int // nodes that are tried, and those at 100 %, at each step
	}{
		{"of a hundred", 100, nil, [][2]int{{1, 1}, {10, 10}, {50, 50}, {100, 100}}},
		{"of three, stages that add none are left out", 3, nil, [][2]int{{1, 1}, {2, 2}, {3, 3}}},
		{"of one", 1, nil, [][2]int{{1, 1}}},
		{"with a canary", 10, func(r *store.Rollout) { r.Canary = 5; r.Stages = []int{10, 100} }, [][2]int{{1, 0}, {1, 1}, {10, 1}, {10, 10}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(tt.nodes, tt.edit)
			for i, want := range tt.stages {
				if some, all := c.serving(); some != want[0] || all != want[1] {
					t.Fatalf("step %d: %d nodes, %d of them wholly, want %v", i, some, all, want)
				}
				if c.advance() {
					t.Fatalf("step %d: goes on before the nodes serve", i)
				}
				c.all()
				if !c.advance() || c.advance() {
					t.Fatalf("step %d: the pause does not begin when the nodes serve", i)
				}
				c.now = c.now.Add(c.rollout.Pause - 1)
				if c.advance() {
					t.Fatalf("step %d: the pause is cut short", i)
				}
				c.now = c.now.Add(1)
				if !c.advance() {
					t.Fatalf("step %d: stays after the pause", i)
				}
			}
			if c.rollout.State != store.Done {
				t.Errorf("state %s", c.rollout.State)
			}
		})
	}
}

// TestClockIsSet sets the clock of all origins while a step is watched: the step is watched
// for one pause by the time that passes, or begins another.
func TestClockIsSet(t *testing.T) {
	for _, test := range []struct {
		name   string
		ahead  time.Duration
		within int // pauses that the step may take from then on
	}{
		{"back", -3 * time.Hour, 2},
		{"ahead", 3 * time.Hour, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(10, nil)
			c.advance()
			c.all()
			c.advance()
			begun := c.now
			c.now, c.ahead = c.now.Add(time.Second), test.ahead
			for c.rollout.Stage == 0 && c.now.Sub(begun) < time.Hour {
				c.steps(time.Second)
			}
			if took := c.now.Sub(begun); took < c.rollout.Pause || took > time.Duration(test.within)*c.rollout.Pause {
				t.Errorf("the step is watched for %s", took)
			}
		})
	}
}

// TestPauseOfAnEarlierProcess: an origin that starts goes on with the pause that another began.
func TestPauseOfAnEarlierProcess(t *testing.T) {
	c := newCluster(10, nil)
	c.all()
	c.advance()
	c.now = c.now.Add(c.rollout.Pause - time.Second)
	c.reports = c.restart()
	if c.advance() {
		t.Error("the pause is cut short")
	}
	if c.steps(time.Second); c.rollout.Stage == 0 {
		t.Error("the pause begins anew")
	}
}

func TestWithoutPauses(t *testing.T) {
	c := newCluster(4, func(r *store.Rollout) { r.Pause = 0 })
	for range 10 {
		c.all()
		c.advance()
	}
	if c.rollout.State != store.Done {
		t.Errorf("state %s at stage %d", c.rollout.State, c.rollout.Stage)
	}
}

func TestRollsBack(t *testing.T) {
	for name, spoil := range map[string]func(c *cluster) (why string){
		"a node refuses":          func(c *cluster) string { c.fail("node_007", wire.ReleaseRefused); return "" },
		"a node withdraws it":     func(c *cluster) string { c.fail("node_000", wire.ReleaseFailed); return "" },
		"the counts speak for it": func(*cluster) string { return "failed calls" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(10, nil)
			c.all()
			c.advance()
			if !c.advanceUnless(spoil(c)) || c.rollout.State != store.RollingBack || c.rollout.Reason == "" {
				t.Fatalf("state %s, %q", c.rollout.State, c.rollout.Reason)
			}
			if some, _ := c.serving(); some != 0 {
				t.Errorf("%d nodes are still to try it", some)
			}
			if c.advance() {
				t.Error("ends before the nodes have gone back")
			}
			c.all()
			if !c.advance() || c.rollout.State != store.RolledBack || c.advance() {
				t.Errorf("state %s", c.rollout.State)
			}
		})
	}
}

// A failure of an earlier attempt with the same release says nothing of this one.
func TestEarlierAttempts(t *testing.T) {
	c := newCluster(1, nil)
	c.fail("node_000", wire.ReleaseFailed)
	c.reports["node_000"].Status.Candidate.Rollout = "rol_0"
	c.advance()
	if c.rollout.State != store.RollingOut {
		t.Errorf("state %s", c.rollout.State)
	}
	if order, _ := orderOf("node_000", &c.rollout, nil); obeys(c.reports["node_000"].Status, order) {
		t.Error("the node is not told to try again")
	}
}

// TestAnyCourse: whatever nodes do, and whoever goes away, the release reaches no
// node before those of the stage before served it, a rollout that ended stays so,
// and every node that obeys ends with one release.
func TestAnyCourse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(rapid.IntRange(1, 12).Draw(t, "nodes"), func(r *store.Rollout) {
			r.Canary = rapid.SampledFrom([]int{0, 10}).Draw(t, "canary")
			r.Pause = time.Duration(rapid.IntRange(0, 2).Draw(t, "pause")) * time.Second
		})
		ids := make([]string, 0, len(c.reports))
		for _, n := range c.rollout.Nodes {
			ids = append(ids, n.ID)
		}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			id := rapid.SampledFrom(ids).Draw(t, "node")
			at := c.reports[id]
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				at.Connected = !at.Connected
				c.reports[id] = at
			case 1:
				at.Status = wire.Status{Running: &wire.ReleaseStatus{Digest: "old"}} // it was started again
				c.reports[id] = at
			case 2:
				if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
					c.fail(id, wire.ReleaseFailed)
				}
			case 3, 4:
				c.now = c.now.Add(time.Second)
			default:
				c.obey(id)
			}
			before := c.rollout
			served := count(&before, c.reports).serves() || !before.Since.IsZero()
			c.advance()
			if some, _ := c.serving(); c.rollout.State == store.RollingOut && some > before.Reached(before.Stage) && !served {
				t.Fatalf("stage %d began before stage %d served", c.rollout.Stage, before.Stage)
			}
			if !before.State.Active() && c.rollout.State != before.State {
				t.Fatalf("%s became %s", before.State, c.rollout.State)
			}
		}
		for id, at := range c.reports { // everybody comes back
			at.Connected = true
			c.reports[id] = at
		}
		for range 50 {
			c.all()
			c.advance()
			c.now = c.now.Add(time.Minute)
			c.advance()
		}
		if c.rollout.State.Active() {
			t.Fatalf("still %s", c.rollout.State)
		}
		wants := map[string]string{}
		for _, n := range c.rollout.Nodes {
			wants[n.ID] = n.Before
			if c.rollout.State == store.Done {
				wants[n.ID] = c.rollout.Digest
			}
		}
		for _, id := range ids {
			if order, told := orderOf(id, nil, wants); !told || order.Run != wants[id] || order.Candidate != "" {
				t.Fatalf("%s is ordered %+v", id, order)
			}
		}
	})
}

// A rollback ends when the nodes run what they ran, not when they set about it.
func TestBackIsBack(t *testing.T) {
	for name, tt := range map[string]struct {
		running string
		trial   *wire.ReleaseStatus
		back    bool
	}{
		"not yet":           {"new", nil, false},
		"on its way":        {"new", &wire.ReleaseStatus{Digest: "old", State: wire.ReleaseFetching}, false},
		"back":              {"old", nil, true},
		"still trying":      {"old", &wire.ReleaseStatus{Digest: "new", State: wire.ReleaseReady}, false},
		"cannot, and so it": {"new", &wire.ReleaseStatus{Digest: "old", State: wire.ReleaseRefused}, true},
	} {
		if got := isBack(wire.Status{Running: &wire.ReleaseStatus{Digest: tt.running}, Candidate: tt.trial}, "old"); got != tt.back {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRollbackWaitsToHear: a node that was told to open the release may do so although its last
// report says nothing of it. A rollback does not end before the node is heard again or gone, also
// where the clock is put back meanwhile.
func TestRollbackWaitsToHear(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(*cluster)
		state store.RolloutState
	}{
		{"nothing is heard", func(*cluster) {}, store.RollingBack},
		{"the node is heard", func(c *cluster) { c.obey(c.rollout.Nodes[0].ID) }, store.RolledBack},
		{"another is heard", func(c *cluster) { c.obey(c.rollout.Nodes[1].ID) }, store.RollingBack},
		{"the node is cut off", func(c *cluster) { c.cut(c.rollout.Nodes[0].ID) }, store.RollingBack},
		{"it is gone", func(c *cluster) {
			c.cut(c.rollout.Nodes[0].ID)
			c.now = c.now.Add(lostMost)
		}, store.RolledBack},
		{"the clock was put back", func(c *cluster) {
			c.ahead = -time.Hour
			c.advance()
			c.now = c.now.Add(time.Second)
			c.obey(c.rollout.Nodes[0].ID)
		}, store.RolledBack},
	} {
		c := newCluster(2, func(r *store.Rollout) { r.Stages = []int{50, 100} })
		for id := range c.reports {
			at := c.reports[id]
			at.At = c.now
			c.reports[id] = at
		}
		c.now = c.now.Add(time.Second)
		c.advanceUnless("by an operator")
		tt.after(c)
		c.advance()
		if c.rollout.State != tt.state {
			t.Errorf("%s: the rollback is %s, want %s", tt.name, c.rollout.State, tt.state)
		}
	}
}

func TestOrders(t *testing.T) {
	wants := map[string]string{"node_1": "a", "": "b"}
	for id, want := range map[string]string{"node_1": "a", "node_2": "b"} {
		if o, told := orderOf(id, nil, wants); !told || o.Run != want {
			t.Errorf("%s is ordered %+v", id, o)
		}
	}
	if o, told := orderOf("node_2", nil, map[string]string{"node_1": "a", "": ""}); !told || o.Run != "" {
		t.Errorf("after the first rollout was rolled back, a node that it did not list is ordered %+v, told %t", o, told)
	}
	if _, told := orderOf("node_2", nil, map[string]string{"node_1": "a"}); told {
		t.Error("a node that nothing was decided about is told something")
	}
	for back, want := range map[string]string{"": "", "a": "a", "b": ""} { // b is what it is to run all the same
		f := &fleet{wants: map[string]string{"": "b"}, rolledBack: back}
		if o, _ := f.orderOf("node_2"); o != (wire.Order{Run: "b", RolledBack: want}) {
			t.Errorf("after %q was rolled back, a node is ordered %+v", back, o)
		}
	}
	order := wire.Order{Run: "a", Candidate: "b", Percent: 10, Rollout: "rol_1"}
	status := func(run, candidate string, percent int, state wire.ReleaseState, rollout string) wire.Status {
		s := wire.Status{Running: &wire.ReleaseStatus{Digest: run}}
		if candidate != "" {
			s.Candidate = &wire.ReleaseStatus{Digest: candidate, Percent: percent, State: state, Rollout: rollout}
		}
		return s
	}
	for _, tt := range []struct {
		name  string
		s     wire.Status
		obeys bool
	}{
		{"an older node", wire.Status{}, false},
		{"nothing done", status("a", "", 0, "", ""), false},
		{"all done", status("a", "b", 10, wire.ReleaseReady, "rol_1"), true},
		{"on its way", status("a", "b", 0, wire.ReleasePreparing, "rol_1"), true},
		{"another percentage", status("a", "b", 50, wire.ReleaseReady, "rol_1"), false},
		{"refused", status("a", "b", 0, wire.ReleaseRefused, "rol_1"), true},
		{"refused before", status("a", "b", 0, wire.ReleaseRefused, "rol_0"), false},
		{"another release runs", status("c", "b", 10, wire.ReleaseReady, "rol_1"), false},
		{"on its way to the right one", status("c", "a", 0, wire.ReleaseFetching, "rol_1"), true},
	} {
		if got := obeys(tt.s, order); got != tt.obeys {
			t.Errorf("%s: obeys is %v", tt.name, got)
		}
	}
	if obeys(status("a", "b", 10, wire.ReleaseReady, "rol_1"), wire.Order{Run: "a"}) {
		t.Error("a candidate that nobody wants is left alone")
	}
}

func TestSortNodes(t *testing.T) {
	nodes := func() (list []store.RolloutNode) {
		for i := range 20 {
			list = append(list, store.RolloutNode{ID: fmt.Sprint("node_", i)})
		}
		return list
	}
	up := func(id string) bool { return id != "node_3" && id != "node_7" }
	a, b, c := nodes(), nodes(), nodes()
	sortNodes("one", a, up)
	sortNodes("one", b, up)
	sortNodes("two", c, up)
	if fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
		t.Errorf("orders %v %v %v", a, b, c)
	}
	for _, n := range a[:18] {
		if !up(n.ID) {
			t.Errorf("%s, which is away, is among the first", n.ID)
		}
	}
}
