package rollout

import (
	"testing"

	"partneredge/edge/admission"
	"partneredge/edge/wire"
)

// TestAnswersOfTheOriginFit: a module can answer with whatever the origin can send it.
func TestAnswersOfTheOriginFit(t *testing.T) {
	if admission.MaxAnswer != wire.MaxPayload {
		t.Errorf("a module may answer %d bytes, and the origin can send it %d", admission.MaxAnswer, wire.MaxPayload)
	}
}
