package admin

import (
	"testing"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestNodeSaysWhy: operators read why a node does not run what it is to run.
func TestNodeSaysWhy(t *testing.T) {
	const why, ranBefore = "no space left on device", "it ran this release before the rollout"
	const unheard = "it has not been heard since it was told to go back"
	own, next, before := &wire.ReleaseStatus{}, &wire.ReleaseStatus{Digest: "sha256:next"}, &wire.ReleaseStatus{Digest: "sha256:before"}
	refused := func(digest, rollout string) *wire.ReleaseStatus {
		return &wire.ReleaseStatus{Digest: digest, Rollout: rollout, State: wire.ReleaseRefused, Reason: why}
	}
	ready := &wire.ReleaseStatus{Digest: "sha256:next", Rollout: "rol_1", State: wire.ReleaseReady, Percent: 10}
	for _, tt := range []struct {
		rollout            store.RolloutState
		before             string
		running, candidate *wire.ReleaseStatus
		state, reason      string
	}{
		{store.RollingOut, "sha256:before", own, refused("sha256:before", "rol_1"), "waiting", why},
		{store.RollingOut, "sha256:next", next, nil, "serving", ""},
		{store.Done, "sha256:before", own, refused("sha256:next", ""), "waiting", why},
		{store.RollingBack, "sha256:before", before, ready, "serving", ""},
		{store.RollingBack, "sha256:before", own, nil, "waiting", ""},
		{store.RollingBack, "sha256:before", before, nil, "back", ""},
		{store.RolledBack, "sha256:before", next, refused("sha256:before", "rol_1"), "serving", why},
		{store.RolledBack, "sha256:before", next, refused("sha256:before", ""), "serving", why},
		{store.RolledBack, "sha256:before", own, refused("sha256:before", ""), "waiting", why},
		{store.RolledBack, "sha256:before", nil, nil, "waiting", ""},
		{store.RolledBack, "sha256:before", before, nil, "back", ""},
		{store.RolledBack, "", own, nil, "back", ""},
		{store.RolledBack, "sha256:next", next, nil, "back", ranBefore},
		{store.RollingBack, "sha256:before", before, nil, "waiting", unheard},
		{store.RolledBack, "sha256:before", before, nil, "waiting", unheard},
		{store.RolledBack, "sha256:before", next, nil, "serving", unheard},
		{store.RolledBack, "sha256:before", next, refused("sha256:before", ""), "serving", why},
		{store.Done, "sha256:before", next, nil, "serving", ""},
	} {
		r := store.Rollout{ID: "rol_1", Digest: "sha256:next", State: tt.rollout}
		at := replication.Report{Connected: true, Status: wire.Status{Running: tt.running, Candidate: tt.candidate}}
		v := toRolloutNode(r, store.RolloutNode{ID: "node_1", Before: tt.before}, at, tt.reason != unheard)
		if v.State != tt.state || v.Reason != tt.reason {
			t.Errorf("%s, %q before, running %+v beside %+v: the node is %s, for %q, not %s, for %q",
				tt.rollout, tt.before, tt.running, tt.candidate, v.State, v.Reason, tt.state, tt.reason)
		}
	}
}

// TestKeyState: what is shown of a key is what a request with it meets.
func TestKeyState(t *testing.T) {
	now := time.UnixMicro(1)
	before, after := now.Add(-time.Microsecond), now.Add(time.Microsecond)
	for want, keys := range map[string][]store.Key{
		"active":   {{ExpiresAt: after}},
		"expired":  {{ExpiresAt: now}, {ExpiresAt: before}},
		"in_grace": {{ExpiresAt: after, GraceUntil: after}},
		"revoked": {
			{ExpiresAt: after, RevokedAt: before}, {ExpiresAt: before, RevokedAt: now},
			{ExpiresAt: after, GraceUntil: now}, {ExpiresAt: before, GraceUntil: before}, {ExpiresAt: now, GraceUntil: after},
		},
	} {
		for _, k := range keys {
			if got := keyState(k, now); got != want {
				t.Errorf("expires %v, grace until %v, revoked %v: %s, want %s", k.ExpiresAt, k.GraceUntil, k.RevokedAt, got, want)
			}
		}
	}
}
