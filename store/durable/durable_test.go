package durable_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"partneredge/store/durable"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names of what is in dir, but the lock.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestWriteFileReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for i, perm := range []os.FileMode{0o600, 0o644, 0o666} {
		want := fmt.Sprint("content ", i)
		if err := durable.WriteFile(path, []byte(want), perm); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != perm && runtime.GOOS != "windows" {
			t.Errorf("mode %o, want %o", got, perm)
		}
	}
	if got := names(t, dir); got != "f" {
		t.Errorf("left in the directory: %s", got)
	}
}

func TestWriteThatFailsReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := durable.Disk{}.Write(path, 0o600, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 3<<20)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the writer", err)
	}
	if got := read(t, path); got != "before" {
		t.Errorf("%d bytes, want what was there before", len(got))
	}
	if got := names(t, dir); got != "f" {
		t.Errorf("left in the directory: %s", got)
	}
	if err := durable.WriteFile(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("write to a directory that is not there: %v", err)
	}
}

func TestCreateFileReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.CreateFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.CreateFile(path, []byte("second"), 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v, want os.ErrExist", err)
	}
	if got := read(t, path); got != "first" {
		t.Errorf("%q, want what was written first", got)
	}
	if got := names(t, dir); got != "f" {
		t.Errorf("left in the directory: %s", got)
	}
}

func TestRename(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, path := range []string{from, to} {
		if err := durable.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := durable.OS{}.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !durable.IsAt(f, from) || durable.IsAt(f, to) || durable.IsAt(f, filepath.Join(dir, "none")) {
		t.Error("which path names the file")
	}
	if err := durable.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if !durable.IsAt(f, to) {
		t.Error("the file is not where it was renamed to")
	}
	if got := read(t, to); got != "from" || names(t, dir) != "to" {
		t.Errorf("%q in %s", got, names(t, dir))
	}
	if err := durable.Rename(from, to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rename of what is not there: %v", err)
	}
	if err := f.Close(); err != nil || durable.IsAt(f, to) {
		t.Errorf("a closed file is somewhere: %v", err)
	}
}

func TestLinkReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := durable.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (durable.Disk{}).Link(from, to); err != nil {
		t.Fatal(err)
	}
	if read(t, from) != "content" || read(t, to) != "content" {
		t.Error("not both names are of the file")
	}
	if err := (durable.Disk{}).Link(from, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v, want os.ErrExist", err)
	}
}

func TestRemoveTemp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	var left string
	err := durable.Disk{}.Write(filepath.Join(dir, "f"), 0o600, func(io.Writer) error {
		left = names(t, dir) // what a process that is killed here leaves
		return killed
	})
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	for _, name := range []string{left, left + "2", "f", "part"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (durable.Disk{}).RemoveTemp(dir); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "f part" {
		t.Errorf("left in the directory: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(dir, left, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, left+"2"), nil, 0o600), (durable.Disk{}).RemoveTemp(dir)); err == nil {
		t.Error("what cannot be removed was removed")
	}
	if got := names(t, dir); got != left+" f part" {
		t.Errorf("left in the directory: %s", got)
	}
}

// TestJSON keeps a value for its owner alone, and says which file cannot be read.
func TestJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	want, got := map[string]int{"a": 1}, map[string]int{}
	if err := durable.ReadJSON(path, &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read of nothing: %v", err)
	}
	if err := durable.WriteJSON(path, want); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(path, func() {}); err == nil {
		t.Error("written what JSON has no words for")
	}
	if err := durable.ReadJSON(path, &got); err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := durable.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(path, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("read of half a value: %v", err)
	}
}

// TestSyncThatFails says so, or what was not synced would pass for safe.
func TestSyncThatFails(t *testing.T) {
	dir := t.TempDir()
	if err := (durable.OS{}).SyncDir(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) && runtime.GOOS != "windows" {
		t.Errorf("sync of a directory that is not there: %v", err)
	}
	f, err := durable.OS{}.CreateTemp(dir, "f")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.SyncData(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if f.SyncData() == nil || f.Sync() == nil {
		t.Error("a closed file was synced")
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	unlock, err := durable.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: this system has no lock that ends with its holder")
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "lock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	file := filepath.Join(dir, "lock")
	if _, err := durable.Lock(file); err == nil {
		t.Error("a file was locked as a directory")
	}
	if _, err := durable.LockFile(filepath.Join(file, "lock")); err == nil || errors.Is(err, durable.ErrLocked) {
		t.Errorf("a lock where there can be none: %v", err)
	}
	if _, err := durable.LockFile(file); !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), file) {
		t.Errorf("the file locked twice: %v", err)
	}
	if _, err := durable.Lock(dir); !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), dir+" is in use by another process") {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if unlock, err = durable.Lock(dir); err != nil {
		t.Fatalf("lock again: %v", err)
	}
	unlock()
}

// TestSecretsOthersCanRead: what the program made is refused, and what an operator has
// put there is read and said to be exposed.
func TestSecretsOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: on Windows modes say nothing of who may read a file")
	}
	for _, tt := range []struct {
		mode             os.FileMode
		refused, exposed bool
	}{
		{0o600, false, false}, {0o400, false, false}, {0o700, false, false},
		{0o640, true, false}, {0o440, true, false}, {0o610, true, false},
		{0o620, true, true}, {0o660, true, true},
		{0o604, true, true}, {0o644, true, true}, {0o602, true, true}, {0o601, true, true}, {0o666, true, true},
	} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := errors.Join(os.WriteFile(path, []byte("secret"), 0o600), os.Chmod(path, tt.mode)); err != nil {
			t.Fatal(err)
		}
		text, err := durable.ReadPrivate(path)
		if tt.refused && (text != nil || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(mode %04o): chmod 600 '%s'", tt.mode, path))) {
			t.Errorf("%04o: private %q, %v", tt.mode, text, err)
		}
		if !tt.refused && (string(text) != "secret" || err != nil) {
			t.Errorf("%04o: private %q, %v", tt.mode, text, err)
		}
		want := os.FileMode(0)
		if tt.exposed {
			want = tt.mode
		}
		if text, exposed, err := durable.ReadSecret(path); string(text) != "secret" || exposed != want || err != nil {
			t.Errorf("%04o: %q, exposed %04o, %v", tt.mode, text, exposed, err)
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	if text, err := durable.ReadPrivate(none); text != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("private %q, %v of nothing", text, err)
	}
	if text, exposed, err := durable.ReadSecret(none); text != nil || exposed != 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%q, exposed %04o, %v of nothing", text, exposed, err)
	}
}
