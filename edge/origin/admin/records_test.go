package admin

import (
	"testing"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestNodeSaysWhy: operators read why a node does not run what it is to run.
func TestNodeSaysWhy(t *testing.T) {
	const why = "no space left on device"
	n := store.RolloutNode{ID: "node_1", Before: "sha256:before"}
	own, next := &wire.ReleaseStatus{}, &wire.ReleaseStatus{Digest: "sha256:next"}
	refused := func(digest, rollout string) *wire.ReleaseStatus {
		return &wire.ReleaseStatus{Digest: digest, Rollout: rollout, State: wire.ReleaseRefused, Reason: why}
	}
	for what, tt := range map[string]struct {
		rollout            store.RolloutState
		running, candidate *wire.ReleaseStatus
		state              string
	}{
		"it ran before, so it is not ready for the next": {store.RollingOut, own, refused("sha256:before", "rol_1"), "waiting"},
		"it ran before, to which it should go back":      {store.RolledBack, next, refused("sha256:before", "rol_1"), "serving"},
		"that is rolled out everywhere":                  {store.Done, own, refused("sha256:next", ""), "waiting"},
	} {
		r := store.Rollout{ID: "rol_1", Digest: "sha256:next", State: tt.rollout}
		v := toRolloutNode(r, n, replication.Report{Connected: true, Status: wire.Status{Running: tt.running, Candidate: tt.candidate}})
		if v.State != tt.state || v.Reason != why {
			t.Errorf("a release %s: the node is %s, for %q", what, v.State, v.Reason)
		}
	}
}
