package replication

import (
	"errors"
	"fmt"
	"strings"
	"testing"

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
		"reason":   {Candidate: &wire.ReleaseStatus{Reason: long}},
		"digest":   {Running: &wire.ReleaseStatus{Digest: long}},
		"failures": {Running: &wire.ReleaseStatus{Counts: &wire.ReleaseCounts{Failures: many}}},
		"latency":  {Traffic: &wire.Traffic{Latency: make([]uint64, maxStatusText+1)}},
	} {
		if _, err := (&requests{}).status(t.Context(), "node_1", status); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
