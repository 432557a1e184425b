package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// large is more than the sectors that a disk writes at once.
var large = bytes.Repeat([]byte("new "), 1000)

// steps are the ways to write a file, each over one that is there or not.
var steps = []struct {
	name   string
	before string // content of the file; "": there is none
	do     func(d durable.Disk, path string) error
}{
	{"WriteFile", "", func(d durable.Disk, path string) error { return d.WriteFile(path, large, 0o640) }},
	{"WriteFile over another", "old", func(d durable.Disk, path string) error { return d.WriteFile(path, large, 0o640) }},
	{"Write", "old", func(d durable.Disk, path string) error {
		return d.Write(path, 0o640, func(w io.Writer) error {
			_, err := w.Write(large)
			return err
		})
	}},
	{"CreateFile", "", func(d durable.Disk, path string) error { return d.CreateFile(path, large, 0o640) }},
	{"Rename", "old", func(d durable.Disk, path string) error {
		if err := d.WriteFile(path+".next", large, 0o640); err != nil {
			return err
		}
		return d.Rename(path+".next", path)
	}},
	{"Link", "", func(d durable.Disk, path string) error {
		if err := d.WriteFile(path+".first", large, 0o640); err != nil {
			return err
		}
		return d.Link(path+".first", path)
	}},
}

// TestPowerCut cuts the power at each operation of each way to write a file,
// with different parts of what was not synced on disk.
func TestPowerCut(t *testing.T) {
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			for seed := range uint64(8) {
				ops := 0
				for at, done := 1, false; !done; at++ {
					path := filepath.Join(t.TempDir(), "f")
					if step.before != "" {
						if err := durable.WriteFile(path, []byte(step.before), 0o640); err != nil {
							t.Fatal(err)
						}
					}
					disk := durabletest.New(t, filepath.Dir(path))
					disk.CutAt(at)
					err := step.do(durable.Disk{FS: disk}, path)
					done = err == nil
					if !done && !errors.Is(err, durabletest.ErrPowerCut) {
						t.Fatalf("cut at %d: %v", at, err)
					}
					var rng *rand.Rand // seed 0: nothing that was not synced is left
					if seed > 0 {
						rng = rand.New(rand.NewPCG(seed, uint64(at)))
					}
					disk.Cut(rng)
					holds(t, fmt.Sprintf("seed %d, cut at %d", seed, at), path, step.before, done)
					ops = at
				}
				if ops < 6 { // make, write, chmod, sync, publish, sync of the directory
					t.Fatalf("%d operations were cut, want 6 at least", ops)
				}
			}
		})
	}
}

// holds fails unless the file holds what was there before or, if it must, the
// whole new content.
func holds(t *testing.T, when, path, before string, mustBeNew bool) {
	t.Helper()
	got, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if mustBeNew || before != "" {
			t.Errorf("%s: the file is not there", when)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if isNew := bytes.Equal(got, large); !isNew && (mustBeNew || string(got) != before) {
		t.Errorf("%s: the file has %d bytes, %.20q", when, len(got), got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%s: %v, %v", when, info.Mode(), err)
	}
}

// TestDiskFails has each operation of each way fail once.
func TestDiskFails(t *testing.T) {
	for _, step := range steps {
		for _, kind := range []durabletest.Kind{
			durabletest.Make, durabletest.Write, durabletest.Chmod, durabletest.Sync, durabletest.Rename, durabletest.Link, durabletest.SyncDir,
		} {
			t.Run(step.name+"/"+string(kind), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "f")
				if step.before != "" {
					if err := durable.WriteFile(path, []byte(step.before), 0o640); err != nil {
						t.Fatal(err)
					}
				}
				disk := durabletest.New(t, filepath.Dir(path))
				disk.Fail(kind, 1, syscall.ENOSPC)
				err := step.do(durable.Disk{FS: disk}, path)
				if asked := disk.Count(kind) > 0; asked != errors.Is(err, syscall.ENOSPC) {
					t.Errorf("error %v, asked for: %v", err, asked)
				}
				if len(disk.AfterFailedSync()) > 0 {
					t.Errorf("written again after a failed sync: %v", disk.AfterFailedSync())
				}
				holds(t, "after the failure", path, step.before, err == nil)
			})
		}
	}
}

// TestSyncTree syncs every directory of a tree, and says when one was not.
func TestSyncTree(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := errors.Join(os.MkdirAll(below, 0o700), durable.WriteFile(filepath.Join(below, "f"), large, 0o600)); err != nil {
		t.Fatal(err)
	}
	disk := durabletest.New(t, root)
	var synced []string
	disk.Before(func(op durabletest.Op) error {
		synced = append(synced, op.Path)
		return nil
	})
	tree := durable.Disk{FS: disk}
	if err := tree.SyncTree(root); err != nil {
		t.Fatal(err)
	}
	slices.Sort(synced)
	if want := []string{root, filepath.Dir(below), below}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
	disk.Fail(durabletest.SyncDir, 5, syscall.EIO) // the second of the next walk
	if err := tree.SyncTree(root); !errors.Is(err, syscall.EIO) {
		t.Errorf("a directory could not be synced: %v", err)
	}
	if err := tree.SyncTree(filepath.Join(root, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sync of what is not there: %v", err)
	}
}
