package fleet

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessThatEndsBeforeItIsReady(t *testing.T) {
	for script, want := range map[string]string{
		"echo no modules here >&2; exit 3": "exit status 3: no modules here",
		"exit 0":                           "it ended by itself",
	} {
		p := &Process{Ready: filepath.Join(t.TempDir(), "ready")}
		var at struct{}
		err := p.Start(t.Context(), &at, "sh", "-c", script)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", script, err, want)
		}
	}
}
