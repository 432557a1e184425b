package admin

import (
	"testing"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestWaitingNodeSaysWhy: a node that cannot run the release of before is not ready for
// the next one, and operators read why.
func TestWaitingNodeSaysWhy(t *testing.T) {
	r := store.Rollout{ID: "rol_1", Digest: "sha256:next", State: store.RollingOut}
	n := store.RolloutNode{ID: "node_1", Before: "sha256:before"}
	status := wire.Status{
		Running:   &wire.ReleaseStatus{},
		Candidate: &wire.ReleaseStatus{Digest: n.Before, Rollout: r.ID, State: wire.ReleaseRefused, Reason: "no space left on device"},
	}
	v := toRolloutNode(r, n, replication.Report{Connected: true, Status: status})
	if v.State != "waiting" || v.Reason != "no space left on device" {
		t.Errorf("the node is %s, for %q", v.State, v.Reason)
	}
}
