package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/buntdb"
	"pgregory.net/rapid"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

func value(key string, n int) string { return seal(key, putInt(newValue(8), int64(n))) }

// A file is what it was told, whatever is rewritten meanwhile, however often it
// is opened again, and at whatever moment its process is killed.
func TestFileIsWhatItWasTold(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprint(run), "db")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		log, text := logtest.New()
		open := func(path string) *file {
			f, err := openFile(durable.Disk{}, path, log, newClock().now())
			if err != nil {
				t.Fatal(err)
			}
			f.shrinkFrom = 0
			return f
		}
		// from is where the changes begin that a rewriting copies; the tree has
		// some of them already.
		from := func(f *file) int64 {
			if whole, err := os.ReadFile(f.path); err == nil {
				return int64(max(0, bytes.LastIndex(whole, []byte("*3\r\n$3\r\nset\r\n"))))
			}
			return 0
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		f := open(path)
		want := map[string]string{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := fmt.Sprintf("k%d", rapid.IntRange(0, 5).Draw(t, "key"))
			switch rapid.IntRange(0, 8).Draw(t, "do") {
			case 0:
				delete(want, key)
				must(f.remove(key))
			case 1: // killed while the new file is written
				must(os.WriteFile(path+shrinking, appendCommand(nil, edit{key: "lost", value: "x"})[:i%20], 0o600))
				f = open(path)
			case 2: // killed before the new file is in place
				_, err := f.rewrite(f.logs[0], f.logs[0].size)
				must(err)
				f = open(path)
			case 3: // killed after that, with a change between
				_, err := f.rewrite(f.logs[0], from(f))
				must(err)
				want[key] = value(key, i)
				must(f.set(key, want[key]))
				must(os.Rename(path+shrinking, path))
				f = open(path)
			case 4:
				f.live = 0
				must(f.shrink())
			case 5:
				must(f.close())
				f = open(path)
			case 6: // killed
				f = open(path)
			default:
				want[key] = value(key, i)
				must(f.set(key, want[key]))
			}
			got := map[string]string{}
			must(f.each("", "", func(k, v string) bool { got[k] = v; return true }))
			if !maps.Equal(got, want) {
				t.Fatalf("step %d: %d keys, want %d", i, len(got), len(want))
			}
		}
		must(f.close())
		if text.Lines() > 0 {
			t.Fatalf("damage where there is none: %s", text)
		}
	})
}

// A file of the layout before this one, with logs beside it, is as none.
func TestFileOfTheLayoutBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "[a", "db") // no pattern
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	row(t, path, 4)
	for _, name := range []string{path + "-1", path + "-12", path + "-9", path + shrinking} {
		write(t, name, []byte("*3"))
	}
	for _, name := range []string{path + "-", path + "-a", path + ".damaged-1"} {
		write(t, name, nil)
	}
	log, text := logtest.New()
	if got := contents(t, path, log); len(got) != 0 || text.Lines() != 0 {
		t.Errorf("%d keys, log: %s", len(got), text)
	}
	left, err := fs.Glob(os.DirFS(filepath.Dir(path)), "db*")
	if err != nil || len(left) != 4 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestRewriteThatFails has each write and each sync of a new file fail once. Half of it
// must never take the place of the log.
func TestRewriteThatFails(t *testing.T) {
	for _, kind := range []durabletest.Kind{durabletest.Write, durabletest.Sync} {
		for n := 1; n <= 3; n++ {
			dir := t.TempDir()
			disk := durabletest.New(t, dir)
			f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			f.syncEach = true
			if err := f.set("k", value("k", 1)); err != nil {
				t.Fatal(err)
			}
			disk.Fail(kind, disk.Count(kind)+n, syscall.ENOSPC)
			// The tree is written and, from the log, a change that it had already.
			if _, err := f.rewrite(f.logs[0], 0); errors.Is(err, syscall.ENOSPC) != (n < 3) {
				t.Errorf("%s %d fails: %v", kind, n, err)
			}
			if len(f.logs) != 1 && n < 3 {
				t.Errorf("%s %d fails: changes are written to %d files", kind, n, len(f.logs))
			}
			disk.Before(func(durabletest.Op) error { return nil })
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRewriteWritesLittleAtATime: what is written at once has all others wait.
func TestRewriteWritesLittleAtATime(t *testing.T) {
	for name, test := range map[string]struct{ keys, size, writes int }{
		"many keys":  {keys: 2*chunkKeys + 1, size: 8, writes: 3},
		"large ones": {keys: 5, size: chunkBytes / 2, writes: 3},
	} {
		dir := t.TempDir()
		disk := durabletest.New(t, dir)
		f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i := range test.keys {
			key := fmt.Sprintf("k%03d", i)
			if err := f.set(key, seal(key, putText(newValue(test.size), strings.Repeat("v", test.size)))); err != nil {
				t.Fatal(err)
			}
		}
		before := disk.Count(durabletest.Write)
		f.logs[0].unsure = true
		if err := f.shrink(); err != nil {
			t.Fatal(err)
		}
		if writes := disk.Count(durabletest.Write) - before; writes != test.writes {
			t.Errorf("%s: %d writes, want %d", name, writes, test.writes)
		}
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedSyncHasTheLogWrittenAnew: what a failed sync has lost is in the file again,
// with what came after it, once a shrink succeeds.
func TestFailedSyncHasTheLogWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	disk := durabletest.New(t, dir)
	f, err := openFile(durable.Disk{FS: disk}, path, slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	var fails durabletest.Kind
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == fails {
			return syscall.EIO
		}
		return nil
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	for i, kind := range []durabletest.Kind{durabletest.Sync, durabletest.Make, durabletest.Rename, ""} {
		key := fmt.Sprint("k", i)
		want[key] = value(key, i)
		must(f.set(key, want[key]))
		fails = kind
		if i == 0 {
			if err := f.sync(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("the sync: %v", err)
			}
			continue
		}
		if err := f.shrink(); errors.Is(err, syscall.EIO) != (kind != "") { // else the next one is to do it
			t.Errorf("a shrink in which %q fails: %v", kind, err)
		}
	}
	if f.logs[0].unsure {
		t.Error("the new log is to be written anew")
	}
	must(f.sync())
	disk.Cut(nil)
	log, logged := logtest.New()
	if got := contents(t, path, log); !maps.Equal(got, want) || logged.Lines() > 0 {
		t.Errorf("%d keys after a power cut, want %d; %s", len(got), len(want), logged)
	}
}

// TestShrinkWithoutTheDirectory: a log that took the place of another, in a directory that was
// not synced then, gets its name with the next change that is to be on disk, or that fails. It
// is written anew when the disk is well again.
func TestShrinkWithoutTheDirectory(t *testing.T) {
	for _, syncEach := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "db")
		disk := durabletest.New(t, dir)
		f, err := openFile(durable.Disk{FS: disk}, path, slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f.syncEach = syncEach
		set := func(key string) error {
			err := f.set(key, value(key, 1))
			if err == nil && !syncEach {
				err = f.sync()
			}
			return err
		}
		if err := set("k1"); err != nil {
			t.Fatal(err)
		}
		disk.Before(failing(durabletest.SyncDir))
		f.logs[0].unsure = true
		for range 2 {
			if err := f.shrink(); !errors.Is(err, syscall.EIO) {
				t.Errorf("a shrink whose directory is not synced: %v", err)
			}
			if err := set("k2"); !errors.Is(err, syscall.EIO) {
				t.Errorf("a change in a file that may have no name: %v", err)
			}
		}
		disk.Before(failing())
		if err := set("k3"); err != nil {
			t.Error(err)
		}
		renamed := disk.Count(durabletest.Rename)
		for range 2 {
			if err := f.shrink(); err != nil {
				t.Error(err)
			}
		}
		if n := disk.Count(durabletest.Rename) - renamed; n != 1 {
			t.Errorf("the file was written anew %d times, want once", n)
		}
		if err := set("k4"); err != nil {
			t.Error(err)
		}
		disk.Cut(nil)
		_ = f.close()
		got := contents(t, path, slog.New(slog.DiscardHandler))
		for key, want := range map[string]bool{"k1": true, "k2": !syncEach, "k3": true, "k4": true} {
			if (got[key] != "") != want {
				t.Errorf("each is synced %t: %s is there after a power cut: %t", syncEach, key, !want)
			}
		}
	}
}

// failing returns what a disk is told to do whose operations of some kinds fail.
func failing(kinds ...durabletest.Kind) func(durabletest.Op) error {
	return func(op durabletest.Op) error {
		if slices.Contains(kinds, op.Kind) {
			return syscall.EIO
		}
		return nil
	}
}

// TestShrinkIsDue once half of the log is not in use any more, and not before.
func TestShrinkIsDue(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.set("k", value("k", 1)); err != nil {
		t.Fatal(err)
	}
	size := f.logs[0].size
	for _, test := range []struct {
		live, from int64
		due        bool
	}{{size/2 + 1, 0, false}, {0, size + 1, false}, {size / 2, size, true}} {
		before := disk.Count(durabletest.Rename)
		f.live, f.shrinkFrom = test.live, test.from
		if err := f.shrink(); err != nil {
			t.Fatal(err)
		}
		if due := disk.Count(durabletest.Rename) > before; due != test.due {
			t.Errorf("%d of %d bytes in use, worth it from %d: written anew %t", test.live, size, test.from, due)
		}
	}
}

// TestClosedFileSaysSo: no record is not the same as none to be read any more.
func TestClosedFileSaysSo(t *testing.T) {
	f := mustFile(t, filepath.Join(t.TempDir(), "db"))
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if value, err := f.get("k"); !errors.Is(err, buntdb.ErrDatabaseClosed) {
		t.Errorf("%q, %v", value, err)
	}
	if err := f.set("k", "v"); !errors.Is(err, buntdb.ErrDatabaseClosed) {
		t.Errorf("set: %v", err)
	}
}
