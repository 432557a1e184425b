package local

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// TestRemovedLeavesTheDisk: what was removed or replaced is not in a log that was written anew,
// which is due after a while though it is small. Of one in which there is nothing else it is not
// done again.
func TestRemovedLeavesTheDisk(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	path := filepath.Join(dir, "db")
	var written func() // called once after a write to the log that is written anew
	f, err := openFile(durable.Disk{FS: watchedFS{disk, func(name string) {
		if call := written; call != nil && name == path+shrinking {
			written = nil
			call()
		}
	}}}, path, slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shrunk := func(anew bool) {
		t.Helper()
		before := disk.Count(durabletest.Rename)
		must(f.shrink())
		if done := disk.Count(durabletest.Rename) > before; done != anew {
			t.Errorf("written anew %t, want %t", done, anew)
		}
	}
	holds := func(text string) bool {
		t.Helper()
		all, err := os.ReadFile(path)
		must(err)
		return bytes.Contains(all, []byte(text))
	}
	f.anew = 0
	shrunk(false) // there is nothing in it
	must(f.set("v:acc_1", "Dana Reyes"))
	must(f.set("v:acc_2", "Sam Okafor"))
	must(f.set("v:acc_2", "Sam Marsh"))
	must(f.remove("v:acc_1"))
	f.anew = 1
	shrunk(false)
	f.anew = 0
	shrunk(true)
	if holds("Dana Reyes") || holds("Okafor") || !holds("Sam Marsh") {
		t.Error("what was removed is in the log, or what was not is not")
	}
	if f.anew != anewEvery {
		t.Errorf("the next time is in %d s", f.anew)
	}
	f.anew = 0
	shrunk(false)
	must(f.remove("v:acc_2"))
	shrunk(true)

	// A record that is removed while the log is written anew may be in the new one.
	must(f.set("v:acc_3", "Kim Osei"))
	f.anew = 0
	written = func() { must(f.remove("v:acc_3")) }
	shrunk(true)
	if !holds("Kim Osei") {
		t.Fatal("it is gone already: the test shows nothing")
	}
	f.anew = 0
	shrunk(true)
	if holds("Kim Osei") {
		t.Error("it is in the log")
	}
}

// watchedFS says which files were written to.
type watchedFS struct {
	durable.FS
	wrote func(name string)
}

func (d watchedFS) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	return watchedFile{f, func() { d.wrote(name) }}, err
}

type watchedFile struct {
	durable.File
	wrote func()
}

func (f watchedFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.wrote()
	return n, err
}

// unsyncedFS is the machine's file system without syncs, which take real time.
type unsyncedFS struct{ durable.OS }

func (d unsyncedFS) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ durable.File }

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) SyncData() error { return nil }

// TestDroppedViewLeavesTheDisk: the view of a deleted account is in the node's file for an hour
// after a start at most.
func TestDroppedViewLeavesTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // in which buntdb's goroutines see that they are closed
		s := openTest(t, Config{Dir: dir, FS: unsyncedFS{}})
		frame := strings.Repeat("Dana Reyes", 10)
		if _, err := s.Views.Put("profile/acc_1", Record{Ref: "profile/acc_1", Frame: frame, Fetched: time.Now()}, s.Views.Epoch()); err != nil {
			t.Fatal(err)
		}
		if err := s.Views.Drop("profile/acc_1"); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{firstAnew*time.Second - 2*time.Second, 4 * time.Second} {
			time.Sleep(wait)
			synctest.Wait()
			text, err := os.ReadFile(filepath.Join(dir, "hot.db"))
			if err != nil {
				t.Fatal(err)
			}
			if held := bytes.Contains(text, []byte(frame)); held != (wait > time.Minute) {
				t.Errorf("after %v more the view is in the file: %t", wait, held)
			}
		}
	})
}
