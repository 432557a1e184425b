package origin

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/rollout"
	"partneredge/edge/wire"
	"partneredge/store"
)

// runner is an enrolled node that runs what it is ordered to, at once.
type runner struct {
	*member
	mu     sync.Mutex
	status wire.Status
	deaf   bool // to orders
	spoil  func(*wire.Order) (state wire.ReleaseState, why string)
	counts *wire.ReleaseCounts // of a candidate
}

func (w *world) run(name string) *runner {
	w.Helper()
	r := &runner{member: w.enrol(name)}
	r.status = wire.Status{Head: head, Region: "eu-west", Release: "dev", Running: &wire.ReleaseStatus{Counts: &wire.ReleaseCounts{}}}
	r.follow()
	r.tell()
	w.eventually(name+" is connected", func() bool { return w.connected(r.id) })
	return r
}

func (w *world) connected(id string) bool {
	for _, n := range w.must(200, "GET", "/admin/v1/nodes?limit=200", nil)["items"].([]any) {
		if n.(object)["id"] == id {
			return n.(object)["connected"].(bool)
		}
	}
	return false
}

func (r *runner) follow() {
	r.Helper()
	if _, err := r.conn.Subscribe(wire.ToNode+r.id+"."+wire.VerbRelease, func(m *nats.Msg) {
		var o wire.Order
		if err := json.Unmarshal(m.Data, &o); err != nil || o.V != wire.Version {
			r.Errorf("order %s", m.Data)
			return
		}
		r.obey(o)
		r.tell()
	}); err != nil {
		r.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		r.Fatal(err)
	}
}

func (r *runner) obey(o wire.Order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaf {
		return
	}
	r.status.Running = &wire.ReleaseStatus{Digest: o.Run, Counts: r.status.Running.Counts}
	r.status.Candidate = nil
	if o.Candidate != "" {
		trial := &wire.ReleaseStatus{Digest: o.Candidate, Rollout: o.Rollout, State: wire.ReleaseReady, Percent: o.Percent, Counts: r.counts}
		if r.spoil != nil {
			if state, why := r.spoil(&o); state != "" {
				trial.State, trial.Reason, trial.Percent = state, why, 0
			}
		}
		r.status.Candidate = trial
	}
}

// tell the origin how it is.
func (r *runner) tell() {
	r.mu.Lock()
	body, err := json.Marshal(r.status)
	r.mu.Unlock()
	if err == nil {
		err = r.conn.Publish(wire.Subject(r.id, wire.VerbStatus), body)
	}
	if err != nil && r.Context().Err() == nil {
		r.Errorf("telling the status: %v", err)
	}
}

func (r *runner) runs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.status.Candidate; c != nil {
		return fmt.Sprintf("%s beside %s %s %d%%", r.status.Running.Digest, c.Digest, c.State, c.Percent)
	}
	return r.status.Running.Digest
}

// reaches waits until a rollout is in a state.
func (w *world) reaches(id string, state store.RolloutState) object {
	w.Helper()
	var v object
	w.eventually(id+" is "+string(state), func() bool {
		v = w.must(200, "GET", "/admin/v1/rollouts/"+id, nil)
		return v["state"] == string(state)
	})
	return v
}

// noted is a release that the origin has, and the paths to roll it out and back.
type noted struct{ id, digest, promote, rollback string }

func (w *world) noteRelease() noted {
	w.Helper()
	r, _, err := w.config.DB.AddRelease(w.Context(), store.Release{Version: "7.0.0", Digest: "sha256:" + strings.Repeat("7", 64)})
	if err != nil {
		w.Fatal(err)
	}
	return noted{r.ID, r.Digest, "/admin/v1/releases/" + r.ID + "/promote", "/admin/v1/releases/" + r.ID + "/rollback"}
}

func adminRollouts(w *world) {
	r := w.noteRelease()
	w.refused(409, "no_node_connected", "POST", r.promote, nil)
	a, b, c := w.run("Rollout A"), w.run("Rollout B"), w.run("Rollout C")
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
		w.refused(400, bad.reason, "POST", r.promote, bad.body)
	}
	w.refused(404, "not_found", "POST", "/admin/v1/releases/rel_none/promote", nil)
	w.refused(404, "not_found", "POST", "/admin/v1/releases/rel_none/rollback", nil)
	w.refused(404, "not_found", "GET", "/admin/v1/rollouts/rol_none", nil)
	w.refused(400, "limit_not_integer", "GET", "/admin/v1/rollouts?limit=x", nil)

	started := w.must(201, "POST", r.promote, object{"nodes": []string{a.id, "Rollout B"}, "stages": []int{50, 100}, "pause_seconds": 0, "canary_percent": 20})
	if n := len(started["nodes"].([]any)); n != 2 || started["everywhere"] != false {
		w.Errorf("begun %v", started)
	}
	done := w.reaches(started["id"].(string), store.Done)
	for _, n := range []*runner{a, b} {
		w.eventually(n.id+" runs it", func() bool { return n.runs() == r.digest })
	}
	if c.runs() != "" {
		w.Errorf("a node that was not named runs %s", c.runs())
	}
	if done["version"] != "7.0.0" || done["release_id"] != r.id {
		w.Errorf("done %v", done)
	}
	if list := w.must(200, "GET", "/admin/v1/rollouts?limit=1", nil)["items"].([]any); list[0].(object)["id"] != started["id"] {
		w.Errorf("listed %v", list)
	}
	back := w.must(200, "POST", r.rollback, nil)
	w.reaches(back["id"].(string), store.RolledBack)
	for _, n := range []*runner{a, b} {
		w.eventually(n.id+" is back", func() bool { return n.runs() == "" })
	}
	w.refused(409, "not_rolled_out", "POST", r.rollback, nil)

	// One at a time, and an operator may end it.
	started = w.must(201, "POST", r.promote, object{"pause_seconds": 3600})
	w.refused(409, "conflict", "POST", r.promote, nil)
	w.eventually("the first node serves", func() bool {
		return w.must(200, "GET", "/admin/v1/rollouts/"+started["id"].(string), nil)["serving"] == float64(1)
	})
	w.must(200, "POST", r.rollback, nil)
	ended := w.reaches(started["id"].(string), store.RolledBack)
	if ended["reason"] != "by an operator" || ended["everywhere"] != true {
		w.Errorf("ended %v", ended)
	}
	log := w.must(200, "GET", "/admin/v1/audit?target="+r.id, nil)["items"].([]any)
	if len(log) != 4 || log[0].(object)["action"] != "release.rollback" || log[3].(object)["action"] != "release.promote" {
		w.Errorf("log %v", log)
	}
}

// A node that refuses, one that withdraws, and counts that speak against a
// release each end a rollout without anybody's help.
func TestRollsBackByItself(t *testing.T) {
	w := begin(t)
	r := w.noteRelease()
	a, b := w.run("A"), w.run("B")
	for name, tt := range map[string]struct {
		spoil  func(*wire.Order) (wire.ReleaseState, string)
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
			n.spoil, n.counts = tt.spoil, tt.counts
			n.mu.Unlock()
		}
		started := w.must(201, "POST", r.promote, object{"stages": []int{50, 100}, "pause_seconds": 3600})
		ended := w.reaches(started["id"].(string), store.RolledBack)
		if got := ended["reason"].(string); !strings.Contains(got, tt.reason) {
			t.Errorf("%s: reason %q", name, got)
		}
		for _, n := range []*runner{a, b} {
			w.eventually(n.id+" is back", func() bool { return n.runs() == "" })
		}
	}
}

// An origin that is stopped in mid rollout is followed by one that goes on where
// it was; a node that comes later is told what all others run.
func TestRolloutGoesOnAfterRestart(t *testing.T) {
	w := begin(t)
	r := w.noteRelease()
	a, b := w.run("A"), w.run("B")
	b.mu.Lock()
	b.deaf = true
	b.mu.Unlock()
	started := w.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0})
	w.eventually("A serves", func() bool { return a.runs() != "" })
	w.stop()
	w.start()
	for _, n := range []*runner{a, b} {
		n.conn.Close()
		var err error
		if n.conn, err = n.connect(); err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.deaf = false
		n.mu.Unlock()
		n.follow()
		n.tell()
	}
	w.reaches(started["id"].(string), store.Done)
	late := w.run("C")
	for _, n := range []*runner{a, b, late} {
		w.eventually(n.id+" runs it", func() bool { return n.runs() == r.digest })
	}
}

// Two origins over one database take each step once.
func TestTwoOriginsOneRollout(t *testing.T) {
	w := begin(t)
	r := w.noteRelease()
	a := w.run("A")
	second := rollout.Start(rollout.Config{
		DB: w.config.DB, Conn: w.broker.Conn(), Nodes: w.replication.Presence(), Log: w.config.Log, Now: time.Now,
	})
	t.Cleanup(second.Stop)
	for range 5 {
		started := w.must(201, "POST", r.promote, object{"stages": []int{100}, "pause_seconds": 0, "canary_percent": 10})
		w.eventually("it is done", func() bool {
			return w.must(200, "GET", "/admin/v1/rollouts/"+started["id"].(string), nil)["state"] == string(store.Done)
		})
		w.eventually("A runs it", func() bool { return a.runs() == r.digest })
		w.must(200, "POST", r.rollback, nil)
		w.reaches(started["id"].(string), store.RolledBack)
	}
}
