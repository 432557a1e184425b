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
