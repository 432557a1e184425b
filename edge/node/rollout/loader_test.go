package rollout

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"partneredge/edge/admission"
	"partneredge/edge/wire"
)

// TestAnswersOfTheOriginFit: a module can answer with whatever the origin can send it.
func TestAnswersOfTheOriginFit(t *testing.T) {
	if admission.MaxAnswer != wire.MaxPayload {
		t.Errorf("a module may answer %d bytes, and the origin can send it %d", admission.MaxAnswer, wire.MaxPayload)
	}
}

// TestLongReasonsAreCut: an origin that refuses a status for its length takes the node for
// disconnected.
func TestLongReasonsAreCut(t *testing.T) {
	c := &Controller{
		cfg: Config{Changed: func() {}}, router: newRouter(plainDeployment(t, "running")), log: slog.New(slog.DiscardHandler),
		candidate: &wire.ReleaseStatus{Digest: "sha256:next"},
	}
	reason := strings.Repeat("x", maxReason-1) + strings.Repeat("é", 10_000)
	c.ended(wire.ReleaseRefused, reason)
	_, s := c.Status()
	if s.State != wire.ReleaseRefused || !strings.HasPrefix(reason, s.Reason) || len(s.Reason) != maxReason-1 || !utf8.ValidString(s.Reason) {
		t.Errorf("the reason has %d bytes, want %d", len(s.Reason), maxReason-1)
	}
}
