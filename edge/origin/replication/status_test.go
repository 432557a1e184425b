package replication

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestStatusesAreBounded: what a node says of itself is in lists that others must be able to
// read.
func TestStatusesAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxStatusText+1)
	many := make(map[string]uint64)
	for i := range maxStatusText {
		many[fmt.Sprint(i)] = 1
	}
	for name, status := range map[string]wire.Status{
		"region":   {Region: long},
		"build":    {Build: long},
		"digest":   {Running: &wire.ReleaseStatus{Digest: long}},
		"failures": {Running: &wire.ReleaseStatus{Counts: &wire.ReleaseCounts{Failures: many}}},
		"latency":  {Traffic: &wire.Traffic{Latency: make([]uint64, maxStatusText+1)}},
	} {
		if _, err := (&requests{}).status(t.Context(), "node_1", status); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := &Presence{
		cfg:   Config{Now: time.Now, ObserveRefusal: func(string, string, int) {}},
		nodes: map[string]store.Node{"node_1": {ID: "node_1"}}, beats: newHeartbeats(), traffic: newTraffic(),
	}
	status := wire.Status{Running: &wire.ReleaseStatus{}, Candidate: &wire.ReleaseStatus{State: wire.ReleaseRefused, Reason: long}}
	if _, err := (&requests{presence: p}).status(t.Context(), "node_1", status); err != nil {
		t.Fatalf("a node that refuses a release at length is not heard: %v", err)
	}
	candidate := p.Report("node_1").Status.Candidate
	if n := len(candidate.Reason); candidate.State != wire.ReleaseRefused || n == 0 || n > wire.MaxReason {
		t.Errorf("the release is %q, for a reason of %d bytes", candidate.State, n)
	}
}
