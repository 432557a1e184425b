//go:build unix

package command

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/origin/backup"
	"partneredge/edge/origin/natsauth"
	"partneredge/store/central"
)

// backupSource returns the directory of an origin that was started once.
func backupSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	records, err := central.Open(t.Context(), central.Config{URL: filepath.Join(dir, databaseFile)})
	if err != nil {
		t.Fatal(err)
	}
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{adminTokenFile, secretsFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := natsauth.Open(filepath.Join(dir, natsFolder)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBackupToNobody has whoever reads a backup go away: nothing of it stays in the
// origin's directory, and neither does what one left that was killed.
func TestBackupToNobody(t *testing.T) {
	t.Parallel()
	dir := backupSource(t)
	killed := filepath.Join(dir, ".edge-backup-killed")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	going, remove, err := backup.WorkFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	var said bytes.Buffer
	cmd := exec.Command(testFiles.program(t), "backup", "--data", dir, "--to", "-")
	cmd.Stdout, cmd.Stderr = w, &said
	err = cmd.Run()
	w.Close()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !exit.Exited() || !strings.Contains(said.String(), "broken pipe") {
		t.Errorf("%v: %s", err, said.String())
	}
	left, err := filepath.Glob(filepath.Join(dir, ".edge-backup-*"))
	if err != nil || len(left) != 1 || left[0] != going {
		t.Errorf("%v, %v are left, want %s", left, err, going)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(going); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of a backup that is over: %v", err)
	}
}
