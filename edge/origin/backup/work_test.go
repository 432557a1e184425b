package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"partneredge/store/durable"
)

// TestRemoveStale: what processes have left that were killed goes, and neither what is in use
// nor what is somebody else's, such as a lock file of theirs.
func TestRemoveStale(t *testing.T) {
	if !durable.Locks {
		t.Skip("NOT TESTED: this system has no locks, and nothing is removed")
	}
	dir := t.TempDir()
	var keep []string
	for name, make := range map[string]func(string) (string, func() error, error){"backup": WorkFolder, "restore": RestoreFolder} {
		killed, unlock, err := make(dir)
		if err != nil {
			t.Fatal(err)
		}
		secret := filepath.Join(killed, "secrets.keys")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := RemoveStale(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(secret); err != nil {
			t.Errorf("a %s under way: %v", name, err)
		}
		// As if it was killed: its folder stays, unlocked.
		aside := filepath.Join(t.TempDir(), "aside")
		if err := errors.Join(os.Rename(killed, aside), unlock(), os.Rename(aside, killed)); err != nil {
			t.Fatal(err)
		}
		for folder, lock := range map[string]string{
			".edge-" + name + "-empty": "", ".edge-" + name + "-other": "another's", ".edge-" + name + "-text": strings.Repeat("x", len(lockText)), "." + name + "-prod": lockText,
		} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
			if lock == "" {
				continue
			}
			keep = append(keep, folder)
			if err := os.WriteFile(filepath.Join(dir, folder, "lock"), []byte(lock), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := RemoveStale(dir); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if slices.Sort(keep); err != nil || !slices.Equal(left, keep) {
		t.Errorf("left are %v, %v, want %v", left, err, keep)
	}
	if err := RemoveStale(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestWalk: files are found through links, and each once where a link leads to above.
func TestWalk(t *testing.T) {
	outer := t.TempDir()
	for _, name := range []string{"dir/admin.token", "dir/.part-1", "dir/.work/file", "dir/releases/blob", "elsewhere/seed", "elsewhere/deep/key", "keys"} {
		path := filepath.Join(outer, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"link": "dir", "dir/nats": "../elsewhere", "dir/secrets.keys": "../keys", "dir/releases/up": "../..", "dir/nothing": "none", "elsewhere/deep/round": "..",
	} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(outer, filepath.FromSlash(link))); err != nil {
			t.Skip("NOT TESTED: symbolic links:", err)
		}
	}
	for _, from := range []string{"dir", "link"} {
		var found []string
		err := Walk(filepath.Join(outer, from), func(name, path string) error {
			if _, err := os.Stat(path); err != nil {
				return err
			}
			found = append(found, name)
			return nil
		})
		slices.Sort(found)
		// What is above dir is no part of it, but a link says that it is.
		want := []string{
			"admin.token", "nats/deep/key", "nats/seed", "releases/blob",
			"releases/up/elsewhere/deep/key", "releases/up/elsewhere/seed", "releases/up/keys", "secrets.keys",
		}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%s has %q, %v, want %q", from, found, err, want)
		}
	}
	broken := errors.New("broken")
	if err := Walk(filepath.Join(outer, "dir"), func(string, string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error of a file: %v", err)
	}
}
