package link

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"partneredge/edge/logging"
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

// TestUnreadableAnswersAreLogged: whoever asked only knows that there is no answer now.
func TestUnreadableAnswersAreLogged(t *testing.T) {
	var log bytes.Buffer
	l := &Link{warnings: logging.New(slog.New(slog.NewTextHandler(&log, nil)))}
	for range 2 {
		if err := l.decode(wire.VerbView, []byte("no message"), new(wire.ViewReply)); err == nil {
			t.Error("it is read")
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "verb="+wire.VerbView) {
		t.Errorf("the log says %q", got)
	}
}
