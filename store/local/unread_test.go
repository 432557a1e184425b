package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

// fillFile makes a file of some 20 000 bytes, and returns what is in it.
func fillFile(t *testing.T, path string) []byte {
	t.Helper()
	f := mustFile(t, path)
	for i := range 40 {
		key := fmt.Sprintf("k%02d", i)
		if err := f.set(key, seal(key, putText(newValue(0), strings.Repeat("v", 450)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// TestStoreGoesOnWithUnreadSectors: a file of which the disk does not read a block is set aside as
// it is, which is one line in the log, and what lies before the block is kept.
func TestStoreGoesOnWithUnreadSectors(t *testing.T) {
	disk, dir, whole := new(durabletest.BadBlocks), t.TempDir(), map[string][]byte{}
	for _, name := range []string{"hot.db", "limits.db", "unconfirmed.db"} {
		whole[name] = fillFile(t, filepath.Join(dir, name))
		disk.Set(name, 1)
	}
	log, logged := logtest.New()
	s, err := Open(Config{Dir: dir, FS: disk, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, f := range []*file{s.hot, s.limits, s.unconfirmed} {
		if !f.damaged {
			t.Errorf("%s is not known as damaged", f.path)
		}
		for key, kept := range map[string]bool{"k00": true, "k06": true, "k10": false, "k39": false} {
			if value, err := f.get(key); err != nil || (value != "") != kept {
				t.Errorf("%s of %s is kept: %v, %v", key, f.path, value != "", err)
			}
		}
		aside, err := filepath.Glob(f.path + ".damaged-*")
		if err != nil || len(aside) != 1 {
			t.Fatalf("set aside are %v, %v", aside, err)
		}
		if text, err := os.ReadFile(aside[0]); err != nil || string(text) != string(whole[filepath.Base(f.path)]) {
			t.Errorf("%s has %d bytes, %v", aside[0], len(text), err)
		}
	}
	if n := strings.Count(logged.String(), "set aside"); n != 3 || logged.Lines() != 3 || !strings.Contains(logged.String(), syscall.EIO.Error()) {
		t.Errorf("log: %s", logged)
	}
}

// TestRepairWithUnreadSectors: a bad block is damage wherever it lies, also where the end of a
// command that was cut short is not read. A file of which nothing is read is left as it is.
func TestRepairWithUnreadSectors(t *testing.T) {
	const block = durabletest.BlockSize
	for name, test := range map[string]struct {
		bad  []int64
		size int64 // to which the file is cut; 0: it is not
		kept int64 // bytes at least; -1: it cannot be opened
	}{
		"the first block":         {bad: []int64{0}},
		"all but the last":        {bad: []int64{0, 1, 2, 3}},
		"a command that was torn": {bad: []int64{4}, size: 4*block + 10, kept: 3 * block},
		"all":                     {bad: []int64{0, 1, 2, 3, 4}, kept: -1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			size := int64(len(fillFile(t, path)))
			if size/block != 4 {
				t.Fatalf("the file has %d bytes", size)
			}
			if test.size > 0 {
				size = test.size
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
			}
			disk := new(durabletest.BadBlocks)
			disk.Set(path, test.bad...)
			r, err := repair(durable.Disk{FS: disk}, path, newClock().now())
			bad := r.aside
			if test.kept < 0 {
				bad = path
			}
			if failed := errors.Is(err, syscall.EIO); failed != (test.kept < 0) || err != nil && !failed || r.kept < test.kept {
				t.Fatalf("%+v, %v", r, err)
			}
			if info, err := os.Stat(bad); err != nil || info.Size() != size {
				t.Errorf("%+v, the file: %v, %v", r, info, err)
			}
		})
	}
}
