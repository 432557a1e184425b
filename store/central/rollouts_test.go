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
