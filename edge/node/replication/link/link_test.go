package link

import (
	"strings"
	"testing"

	"partneredge/edge/wire"
)

// TestTooLargeIsNotSent: the origin would take a node that sends such messages for stolen.
func TestTooLargeIsNotSent(t *testing.T) {
	revoke := func(size int) error {
		_, err := encode(wire.VerbRevoke, &wire.RevokeRequest{ID: strings.Repeat("x", size)})
		return err
	}
	most := wire.MaxBytes(wire.VerbRevoke)
	if err := revoke(most - 100); err != nil {
		t.Error(err)
	}
	if err := revoke(most); err == nil {
		t.Error("a message that is too large is sent")
	}
}
