package origin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/rollout"
	"partneredge/edge/wire"
	"partneredge/store"
)

// runner is an enrolled node that does at once what it is ordered.
type runner struct {
	*enrolled
	mu     sync.Mutex
	status wire.Status
	ignore bool // orders
	refuse func(*wire.Order) (state wire.ReleaseState, why string)
	counts *wire.ReleaseCounts // of a candidate
	order  wire.Order          // the last one
}

func (f *fixture) run(name string) *runner {
	f.Helper()
	r := &runner{enrolled: f.enrol(name)}
	r.status = wire.Status{Head: head, Region: "eu-west", Build: "dev", Running: &wire.ReleaseStatus{Counts: &wire.ReleaseCounts{}}}
	r.subscribe()
	r.report()
	f.eventually(name+" is connected", func() bool { return f.connected(r.id) })
	go r.beat()
	return r
}

// beat publishes the node's status until the test ends: the origin takes a node whose
// heartbeats stay away for dead. What cannot be published while the origin is away is not.
func (r *runner) beat() {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_ = r.publish()
		case <-r.Context().Done():
			return
		}
	}
}

// reconnect connects to an origin that was started again.
func (r *runner) reconnect() {
	r.Helper()
	conn, err := r.connect()
	if err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	r.conn.Close()
	r.conn = conn
	r.mu.Unlock()
	r.subscribe()
	r.report()
}

func (f *fixture) connected(id string) bool {
	for _, n := range f.must(200, "GET", "/admin/v1/nodes?limit=200", nil)["items"].([]any) {
		if n.(object)["id"] == id {
			return n.(object)["connected"].(bool)
		}
	}
	return false
}

func (r *runner) subscribe() {
	r.Helper()
	if _, err := r.conn.Subscribe(wire.ToNode+r.id+"."+wire.VerbRelease, func(m *nats.Msg) {
		var o wire.Order
		if err := json.Unmarshal(m.Data, &o); err != nil || o.V != wire.Version {
			r.Errorf("order %s", m.Data)
			return
		}
		r.apply(o)
		r.report()
	}); err != nil {
		r.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		r.Fatal(err)
	}
}

// obeys makes the node ignore its orders, or obey them again.
func (r *runner) obeys(orders bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ignore = !orders
}

func (r *runner) apply(o wire.Order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ignore {
		return
	}
	r.order = o
	r.status.Running = &wire.ReleaseStatus{Digest: o.Run, Counts: r.status.Running.Counts}
	r.status.Candidate = nil
	if o.Candidate != "" {
		candidate := &wire.ReleaseStatus{Digest: o.Candidate, Rollout: o.Rollout, State: wire.ReleaseReady, Percent: o.Percent, Counts: r.counts}
		if r.refuse != nil {
			if state, why := r.refuse(&o); state != "" {
				candidate.State, candidate.Reason, candidate.Percent = state, why, 0
			}
		}
		r.status.Candidate = candidate
	}
}

// publish sends the node's status to the origin.
func (r *runner) publish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := json.Marshal(r.status)
	if err != nil {
		return err
	}
	return r.conn.Publish(wire.Subject(r.id, wire.VerbStatus), body)
}

// report publishes the node's status, which must not fail before the test ends.
func (r *runner) report() {
	if err := r.publish(); err != nil && r.Context().Err() == nil {
		r.Errorf("publishing the status: %v", err)
	}
}

// ordered returns the last order.
func (r *runner) ordered() wire.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order
}

func (r *runner) runs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.status.Candidate; c != nil {
		return fmt.Sprintf("%s beside %s %s %d%%", r.status.Running.Digest, c.Digest, c.State, c.Percent)
	}
	return r.status.Running.Digest
}

// awaitState waits until a rollout is in a state.
func (f *fixture) awaitState(id string, state store.RolloutState) object {
	f.Helper()
	var v object
	f.eventually(id+" is "+string(state), func() bool {
		v = f.must(200, "GET", "/admin/v1/rollouts/"+id, nil)
		return v["state"] == string(state)
	})
	return v
}

// knownRelease is a release that the origin has, and the paths to roll it out and
// back.
type knownRelease struct{ id, digest, promote, rollback string }

func (f *fixture) addRelease() knownRelease {
	f.Helper()
	r, _, err := f.config.DB.AddRelease(f.Context(), store.Release{Version: "7.0.0", Digest: "sha256:" + strings.Repeat("7", 64)})
	if err != nil {
		f.Fatal(err)
	}
	return knownRelease{r.ID, r.Digest, "/admin/v1/releases/" + r.ID + "/promote", "/admin/v1/releases/" + r.ID + "/rollback"}
}

func adminRollouts(f *fixture) {
	r := f.addRelease()
	f.mustRefuse(409, "no_node_connected", "POST", r.promote, nil)
	a, b, c := f.run("Rollout A"), f.run("Rollout B"), f.run("Rollout C")
	for _, bad := range []struct {
		body   any
		reason string
	}{
		{object{"stages": []int{10, 10, 100}}, "stages_invalid"}, {object{"stages": []int{0, 100}}, "stages_invalid"},
		{object{"stages": []int{10, 50}}, "stages_invalid"}, {object{"stages": []int{100, 101}}, "stages_invalid"},
		{object{"pause_seconds": -1}, "pause_seconds_invalid"}, {object{"canary_percent": 100}, "canary_percent_invalid"},
		{object{"percent": 0}, "percent_invalid"}, {object{"nodes": []string{"nobody"}}, "nodes_unknown"},
		{object{"regions": []string{"nowhere"}}, "regions_unknown"}, {object{"nodes": "all"}, "invalid_field_type"},
	} {
		f.mustRefuse(400, bad.reason, "POST", r.promote, bad.body)
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/releases/rel_none/promote", nil)
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/releases/rel_none/rollback", nil)
	f.mustRefuse(404, "not_found", "GET", "/admin/v1/rollouts/rol_none", nil)
	f.mustRefuse(400, "limit_not_integer", "GET", "/admin/v1/rollouts?limit=x", nil)
	f.mustRefuse(400, "nodes_invalid", "GET", "/admin/v1/rollouts?nodes=x", nil)

	started := f.must(201, "POST", r.promote, object{"nodes": []string{a.id, "Rollout B"}, "stages": []int{50, 100}, "pause_seconds": 0, "canary_percent": 20})
	if n := len(started["nodes"].([]any)); n != 2 || started["everywhere"] != false {
		f.Errorf("begun %v", started)
	}
	done := f.awaitState(started["id"].(string), store.Done)
	for _, n := range []*runner{a, b} {
		f.eventually(n.id+" runs it", func() bool { return n.runs() == r.digest })
	}
	if c.runs() != "" {
		f.Errorf("a node that was not named runs %s", c.runs())
	}
	if done["version"] != "7.0.0" || done["release_id"] != r.id {
		f.Errorf("done %v", done)
	}
	if list := f.must(200, "GET", "/admin/v1/rollouts?limit=1", nil)["items"].([]any); list[0].(object)["id"] != started["id"] {
		f.Errorf("listed %v", list)
	}
	for query, want := range map[string]int{"": 2, "?nodes=true": 2, "?nodes=false": 0} {
		one := f.must(200, "GET", "/admin/v1/rollouts"+query, nil)["items"].([]any)[0].(object)
		if n := len(one["nodes"].([]any)); n != want || one["node_count"] != 2.0 || one["serving"] != done["serving"] {
			f.Errorf("%q lists %v, want %d nodes of 2", query, one, want)
		}
	}
	a.obeys(false) // so that the rollback does not end
	back := f.must(200, "POST", r.rollback, nil)
	if again := f.must(200, "POST", r.rollback, nil); again["id"] != back["id"] || again["state"] != string(store.RollingBack) {
		f.Errorf("rolled back again it is %v", again)
	}
	a.obeys(true)
	f.awaitState(back["id"].(string), store.RolledBack)
	for _, n := range []*runner{a, b} {
		f.eventually(n.id+" is back", func() bool { return n.runs() == "" })
		if got := n.ordered().RolledBack; got != r.digest {
			f.Errorf("%s is told that %q was rolled back", n.id, got)
		}
	}
	f.mustRefuse(409, "not_rolled_out", "POST", r.rollback, nil)

	// One at a time, and an operator may end it.
	started = f.must(201, "POST", r.promote, object{"pause_seconds": 3600})
	f.mustRefuse(409, "rollout_under_way", "POST", r.promote, nil)
	if _, said := f.call("POST", r.promote, nil); said["detail"] != "another rollout is under way" {
		f.Errorf("a second rollout is told %v", said)
	}
	f.eventually("the first node serves", func() bool {
		return f.must(200, "GET", "/admin/v1/rollouts/"+started["id"].(string), nil)["serving"] == float64(1)
	})
	f.must(200, "POST", r.rollback, nil)
	ended := f.awaitState(started["id"].(string), store.RolledBack)
	if ended["reason"] != "by an operator" || ended["everywhere"] != true {
		f.Errorf("ended %v", ended)
	}
	log := f.must(200, "GET", "/admin/v1/audit?target="+r.id, nil)["items"].([]any)
	if len(log) != 4 || log[0].(object)["action"] != "release.rollback" || log[3].(object)["action"] != "release.promote" {
		f.Errorf("log %v", log)
	}
}

// TestEarlierRolloutsAreReadOnce: a list without nodes reads the record of no rollout but the
// newest a second time, for they are long where there are many nodes.
func TestEarlierRolloutsAreReadOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.addRelease()
	f.run("A")
	for range 3 {
		started := f.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0})
		f.awaitState(started["id"].(string), store.Done)
	}
	list := func(query string) []any { return f.must(200, "GET", "/admin/v1/rollouts?"+query, nil)["items"].([]any) }
	whole, heads := list(""), list("nodes=false")
	for i, one := range whole {
		one := one.(object)
		one["nodes"] = []any{}
		if i > 0 {
			one["serving"] = 0.0
		}
	}
	if !reflect.DeepEqual(heads, whole) {
		t.Errorf("listed without nodes: %v, want %v", heads, whole)
	}
	if _, err := f.database().Exec(`UPDATE rollouts SET record = '{' WHERE id <> ?`, whole[0].(object)["id"]); err != nil {
		t.Fatal(err)
	}
	if again := list("nodes=false&limit=2"); !reflect.DeepEqual(again, heads[:2]) {
		t.Errorf("listed again: %v, want %v", again, heads[:2])
	}
}

// TestRolloutLeavesOutUnknownNodes: a node of which nobody knows what it runs is not told to
// run the modules of its own disk while the first rollout goes on.
func TestRolloutLeavesOutUnknownNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, a, unheard := f.addRelease(), f.run("A"), f.enrol("B")
	f.mustRefuse(409, "node_unknown", "POST", r.promote, object{"nodes": []string{a.id, unheard.id}})
	started := f.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0})
	if nodes := started["nodes"].([]any); len(nodes) != 1 || nodes[0].(object)["id"] != a.id {
		t.Errorf("the rollout reaches %v", nodes)
	}
	f.awaitState(started["id"].(string), store.Done)
	decided, err := f.config.DB.NodeReleases(t.Context())
	if _, of := decided[unheard.id]; err != nil || of || decided[""] != r.digest {
		t.Errorf("decided is %v, %v", decided, err)
	}
}

// A node that refuses, one that withdraws, and counts that speak against a
// release each end a rollout without anybody's help.
func TestRollsBackByItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.addRelease()
	a, b := f.run("A"), f.run("B")
	for name, tt := range map[string]struct {
		refuse func(*wire.Order) (wire.ReleaseState, string)
		counts *wire.ReleaseCounts
		reason string
	}{
		"refused":   {func(*wire.Order) (wire.ReleaseState, string) { return wire.ReleaseRefused, "not signed" }, nil, "refused: not signed"},
		"withdrawn": {func(*wire.Order) (wire.ReleaseState, string) { return wire.ReleaseFailed, "traps" }, nil, "failed: traps"},
		"counts": {nil, &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: 400, Errors: 20}, Failures: map[string]uint64{"trap": 20}},
			"failed calls: 20 of 400"},
	} {
		for _, n := range []*runner{a, b} {
			n.mu.Lock()
			n.refuse, n.counts = tt.refuse, tt.counts
			n.mu.Unlock()
		}
		started := f.must(201, "POST", r.promote, object{"stages": []int{50, 100}, "pause_seconds": 3600})
		ended := f.awaitState(started["id"].(string), store.RolledBack)
		if got := ended["reason"].(string); !strings.Contains(got, tt.reason) {
			t.Errorf("%s: reason %q", name, got)
		}
		for _, n := range []*runner{a, b} {
			f.eventually(n.id+" is back", func() bool { return n.runs() == "" })
		}
	}
}

// An origin that is stopped in mid rollout is followed by one that goes on where
// it was; a node that comes later is told what all others run.
func TestRolloutGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.addRelease()
	a, b := f.run("A"), f.run("B")
	b.obeys(false)
	started := f.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0})
	f.eventually("A serves", func() bool { return a.runs() != "" })
	f.stop()
	f.start()
	for _, n := range []*runner{a, b} {
		n.obeys(true)
		n.reconnect()
	}
	f.awaitState(started["id"].(string), store.Done)
	late := f.run("C")
	for _, n := range []*runner{a, b, late} {
		f.eventually(n.id+" runs it", func() bool { return n.runs() == r.digest })
	}
}

// Two origins over one database take each step once.
func TestTwoOriginsOneRollout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.addRelease()
	a := f.run("A")
	second := rollout.Start(rollout.Config{
		DB: f.config.DB, Conn: f.broker.Conn(), Nodes: f.replication.Presence(), Log: f.config.Log, Now: time.Now,
	})
	t.Cleanup(second.Stop)
	for range 5 {
		started := f.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0, "canary_percent": 10})
		f.eventually("it is done", func() bool {
			return f.must(200, "GET", "/admin/v1/rollouts/"+started["id"].(string), nil)["state"] == string(store.Done)
		})
		f.eventually("A runs it", func() bool { return a.runs() == r.digest })
		f.must(200, "POST", r.rollback, nil)
		f.awaitState(started["id"].(string), store.RolledBack)
	}
}

// TestNodesShowTheirRelease: a node has the release that answers most of its requests,
// by id, beside the version of its program.
func TestNodesShowTheirRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, n := f.addRelease(), f.run("n1")
	node := func() object {
		items := f.must(200, "GET", "/admin/v1/nodes", nil)["items"].([]any)
		return items[0].(object)
	}
	reports := func(running, candidate *wire.ReleaseStatus) {
		n.mu.Lock()
		n.ignore = true
		n.status.Running, n.status.Candidate = running, candidate
		n.mu.Unlock()
		n.report()
	}
	own := &wire.ReleaseStatus{}
	shipped := func(percent int) *wire.ReleaseStatus {
		return &wire.ReleaseStatus{Digest: r.digest, Version: "7.0.0", State: wire.ReleaseReady, Percent: percent}
	}
	for _, tt := range []struct {
		running, candidate         *wire.ReleaseStatus
		id, version, digest, state string
		percent                    float64
	}{
		{own, nil, "", "", "", "own_modules", 100},
		{own, shipped(10), "", "", "", "own_modules", 90},
		{own, shipped(100), r.id, "7.0.0", r.digest, "rolling_out", 100},
		{&wire.ReleaseStatus{Digest: r.digest, Version: "7.0.0"}, nil, r.id, "7.0.0", r.digest, "serving", 100},
		{&wire.ReleaseStatus{Digest: "sha256:unknown", Version: "8.0.0"}, nil, "", "8.0.0", "sha256:unknown", "serving", 100},
	} {
		reports(tt.running, tt.candidate)
		want := object{"id": tt.id, "version": tt.version, "digest": tt.digest, "state": tt.state, "reason": "", "percent": tt.percent}
		f.eventually(fmt.Sprintf("the node shows %v", want), func() bool { return reflect.DeepEqual(node()["release"], want) })
		if build := node()["build"]; build != "dev" {
			t.Errorf("build %v", build)
		}
	}
}
