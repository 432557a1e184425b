package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"partneredge/store/durable"
)

// TestUnlockedWhoeverHasTheFile: a process that was started while the lock was held has the
// open file too, until it becomes another program. That keeps no lock once it is given up.
func TestUnlockedWhoeverHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := durable.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range open {
		var fd int
		if target, err := os.Readlink("/proc/self/fd/" + d.Name()); err != nil || target != path {
			continue
		}
		if _, err := fmt.Sscan(d.Name(), &fd); err != nil {
			t.Fatal(err)
		}
		inherited, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(inherited) }()
		found = true
	}
	if !found {
		t.Fatal("the lock's file is not open")
	}
	unlock()
	again, err := durable.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
