package central

import (
	"context"
	"maps"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/fleet"
)

func TestRollouts(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		_, err := db.LastRollout(ctx)
		wantErr(t, err, store.ErrNotFound)
		begin := store.Rollout{
			Release: "rel_1", Digest: "sha256:1", Version: "1.0.0", State: store.RollingOut, Stages: []int{50, 100}, Pause: time.Second,
			Nodes: []store.RolloutNode{{ID: "node_a"}, {ID: "node_b", Before: "sha256:0"}}, Everywhere: true,
		}
		r := must(db.AddRollout(ctx, begin))(t)
		_, err = db.AddRollout(ctx, begin)
		wantErr(t, err, fleet.ErrRolloutUnderWay)
		wants := func(want map[string]string) {
			t.Helper()
			if got := must(db.NodeReleases(ctx))(t); !maps.Equal(got, want) {
				t.Errorf("nodes are to run %v, want %v", got, want)
			}
		}
		before := map[string]string{"node_a": "", "node_b": "sha256:0"}
		wants(before)

		stale := r
		r.Stage = 1
		r, stepped, err := db.StepRollout(ctx, r)
		if noError(t, err); !stepped || r.Revision != 2 {
			t.Fatalf("stepped %v to %d", stepped, r.Revision)
		}
		if _, stepped, err = db.StepRollout(ctx, stale); stepped || err != nil {
			t.Errorf("a step from what was read before: %v %v", stepped, err)
		}
		if got := must(db.Rollout(ctx, r.ID))(t); got.Stage != 1 || got.Revision != 2 || got.Pause != time.Second || len(got.Nodes) != 2 {
			t.Errorf("read %+v", got)
		}
		wants(before)
		r.State = store.Done
		r, _, err = db.StepRollout(ctx, r)
		noError(t, err)
		wants(map[string]string{"node_a": "sha256:1", "node_b": "sha256:1", "": "sha256:1"})

		r.State = store.RollingBack
		r, _, err = db.StepRollout(ctx, r)
		noError(t, err)
		wants(map[string]string{"node_a": "", "node_b": "sha256:0", "": ""})
		_, err = db.AddRollout(ctx, begin)
		wantErr(t, err, store.ErrConflict)
		r.State = store.RolledBack
		_, _, err = db.StepRollout(ctx, r)
		noError(t, err)
		second := must(db.AddRollout(ctx, begin))(t)
		if last := must(db.LastRollout(ctx))(t); last.ID != second.ID {
			t.Errorf("last is %s, want %s", last.ID, second.ID)
		}
		list, next, err := db.Rollouts(ctx, store.Page{Limit: 1})
		if noError(t, err); len(list) != 1 || list[0].ID != second.ID || next == "" {
			t.Errorf("listed %v, then %q", list, next)
		}
		_, err = db.Rollout(ctx, "rol_none")
		wantErr(t, err, store.ErrNotFound)
		_, _, err = db.StepRollout(ctx, store.Rollout{ID: "rol_none"})
		wantErr(t, err, store.ErrNotFound)
	})
}

// TestRolloutBeginsFromWhatIsDecided ends a rollout just before another begins, whose nodes
// were looked at before that: the one that ended stands.
func TestRolloutBeginsFromWhatIsDecided(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx, d := t.Context(), open(t, p)
		begin := store.Rollout{
			Release: "rel_1", Digest: "sha256:1", State: store.RollingOut, Stages: []int{100}, Everywhere: true,
			Nodes: []store.RolloutNode{{ID: "node_a", Before: "sha256:0"}, {ID: "node_b", Before: "sha256:0"}},
		}
		r := must(d.AddRollout(ctx, begin))(t)
		if r.HadBefore || r.Nodes[1].Before != "sha256:0" {
			t.Errorf("before any rollout: %+v", r)
		}
		r.State = store.Done
		r, _, err := d.StepRollout(ctx, r)
		noError(t, err)
		begin.Digest, begin.Nodes = "sha256:2", append(begin.Nodes, store.RolloutNode{ID: "node_new", Before: "sha256:0"})
		r = must(d.AddRollout(ctx, begin))(t)
		want := map[string]string{"node_a": "sha256:1", "node_b": "sha256:1", "node_new": "sha256:1", "": "sha256:1"}
		if got := must(d.NodeReleases(ctx))(t); !maps.Equal(got, want) || r.Before != "sha256:1" || !r.HadBefore {
			t.Errorf("nodes are to run %v, want %v; %+v", got, want, r)
		}
		if p.kind != "postgres" {
			return
		}
		// Another origin ends it, and has not committed yet.
		ends := must(p.another(t).BeginTx(ctx, nil))(t)
		defer func() { _ = ends.Rollback() }()
		for _, statement := range []string{`UPDATE rollouts SET active = NULL, revision = revision + 1`, `UPDATE node_releases SET digest = 'sha256:2'`} {
			_, err := ends.ExecContext(ctx, statement)
			noError(t, err)
		}
		added := make(chan error, 1)
		go func() {
			_, err := d.AddRollout(ctx, begin)
			added <- err
		}()
		waitForLocks(t, d, 1, added)
		noError(t, ends.Commit())
		noError(t, <-added)
		for node, digest := range must(d.NodeReleases(ctx))(t) {
			if digest != "sha256:2" {
				t.Errorf("node %q is to run %s again", node, digest)
			}
		}
	})
}
