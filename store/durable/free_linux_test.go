package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"partneredge/store/durable"
)

// TestFree asks for the room of a file system in bytes, by which it is decided whether
// anything more is taken.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	for calm := false; !calm; { // others may be writing
		var before, after unix.Statfs_t
		err := unix.Statfs(dir, &before)
		free, total, failed := durable.Free(dir)
		if err := errors.Join(err, failed, unix.Statfs(dir, &after)); err != nil {
			t.Fatal(err)
		}
		calm = before.Bavail == after.Bavail
		size := before.Bsize
		if want := int64(before.Bavail) * size; calm && free != want || total != int64(before.Blocks)*size {
			t.Errorf("%d of %d bytes are free, want %d", free, total, want)
		}
	}
	if free, total, err := durable.Free(filepath.Join(dir, "none")); free != 0 || total != 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d of %d bytes are free where there is nothing: %v", free, total, err)
	}
}

// TestNoFileStaysOpen writes and reads files, and tries a lock that somebody holds, as
// others do again and again.
func TestNoFileStaysOpen(t *testing.T) {
	dir := t.TempDir()
	unlock, err := durable.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
		return len(files)
	}
	before := open()
	path := filepath.Join(dir, "f")
	_, read := durable.ReadPrivate(path)
	if err := errors.Join(durable.CreateFile(path, []byte("secret"), 0o600), durable.WriteFile(path, nil, 0o600), durable.SyncTree(dir)); err != nil || read == nil {
		t.Fatal(err, read)
	}
	if _, err := durable.ReadPrivate(path); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Lock(dir); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if after := open(); after != before {
		t.Errorf("%d files are open, before %d", after, before)
	}
}
