package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"partneredge/store/logtest"
)

// TestCredentialsOthersCanRead: a script may have written the file as it liked, so a node
// starts with any mode. One line of its log says what others may do with the file.
func TestCredentialsOthersCanRead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: on Windows modes say nothing of who may read a file")
	}
	o := newOrigin(t)
	for mode, warnings := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o660: 1} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			c := config(t, o)
			var log logtest.Buffer
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			c.Credentials = filepath.Join(t.TempDir(), "node.creds")
			text := must(os.ReadFile(o.credentials))(t)
			if err := errors.Join(os.WriteFile(c.Credentials, text, 0o600), os.Chmod(c.Credentials, mode)); err != nil {
				t.Fatal(err)
			}
			startNode(t, c)
			said := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, "chmod o=,g-w '"+c.Credentials+"'") &&
					strings.Contains(line, "file="+c.Credentials) && strings.Contains(line, fmt.Sprintf("mode=%04o", mode)) {
					said++
				}
			}
			if said != warnings || strings.Count(log.String(), "chmod") != warnings {
				t.Errorf("warned %d times, want %d:\n%s", said, warnings, log.String())
			}
		})
	}
}
