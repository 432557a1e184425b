package rollout

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"partneredge/store/durable"
)

// TestTrials goes through what a mark on disk says to a process that is started
// later.
func TestTrials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "candidate.json")
	start := func() *trials {
		started := openTrials(durable.Disk{}, file, slog.New(slog.DiscardHandler))
		return &started
	}
	begin := func(s *trials, digest, rollout string, want error) {
		t.Helper()
		if err := s.begin(digest, rollout); !errors.Is(err, want) {
			t.Errorf("a trial of %s in %s: %v, want %v", digest, rollout, err, want)
		}
	}
	first := start()
	begin(first, "new", "rol_1", nil)
	begin(first, "new", "rol_1", nil) // it was put off, and is opened again

	died := start()
	begin(died, "new", "rol_1", errDied)
	if err := died.end(); err != nil {
		t.Error(err)
	}
	begin(start(), "new", "rol_1", errDied) // it never ran again
	begin(start(), "other", "rol_1", nil)
	begin(start(), "new", "rol_2", nil)

	ended := start()
	begin(ended, "new", "rol_3", nil)
	if err := errors.Join(ended.end(), ended.end()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a trial that ended: %v", err)
	}
	begin(start(), "new", "rol_3", nil)

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(start(), "new", "rol_3", nil)
}
