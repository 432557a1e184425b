package outbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// onDisk reports whether a file of the outbox holds an item's body.
func (b *hurtBox) onDisk(t *testing.T, i int) bool {
	t.Helper()
	paths, err := filepath.Glob(b.path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, bodyOf(hurtID(i))) {
			return true
		}
	}
	return false
}

// TestNotKeptBesideOneThatWaits: where nothing is kept, an item that is stuck holds those that
// were beside it for an hour at most, however often others are removed, and those that come later
// go at once.
func TestNotKeptBesideOneThatWaits(t *testing.T) {
	const every, stuck, all = 30 * time.Minute, 100, 8
	b := newHurtBox(t, 0)
	add(t, b.Outbox, hurtID(stuck))
	for i := range all {
		add(t, b.Outbox, hurtID(i))
		remove(t, b.Outbox, hurtID(i))
		upkeep(t, b.Outbox)
		if came := time.Duration(i) * every; came > deadFor && b.onDisk(t, i) {
			t.Errorf("item %d, which came after %v, stays for one that waits", i, came)
		}
		b.passed.Add(int64(every))
		for range 2 { // the first may end the tail
			b.passed.Add(int64(upkeepEvery))
			upkeep(t, b.Outbox)
		}
		for j := range i { // came an hour ago
			if b.onDisk(t, j) {
				t.Errorf("item %d is there %v after it was removed", j, time.Duration(i+1-j)*every)
			}
		}
	}
	if got := pending(t, b.Outbox); !b.onDisk(t, stuck) || !slices.Equal(got, []string{hurtID(stuck)}) {
		t.Errorf("%v wait", got)
	}
}

// TestNotKeptBesideUnreadBlocks: as above, in a file of which the disk does not read all. What is
// gone is overwritten every hour, and not as often as something is removed.
func TestNotKeptBesideUnreadBlocks(t *testing.T) {
	const all, every = 40, 30 * time.Minute
	b := newHurtBox(t, 0)
	b.fill(t, 0, all)
	b.disk.Set(b.path, 9)
	b.reopen(t)
	erased := func(i int) bool {
		return !bytes.Contains(read(t, b.path)[i*hurtRecord:][:hurtRecord], []byte("xxx"))
	}
	was := 0
	for i := range 12 {
		remove(t, b.Outbox, hurtID(i))
		b.passed.Add(int64(every))
		upkeep(t, b.Outbox)
		if i > 0 && !erased(i-1) {
			t.Errorf("item %d is there an hour after it was removed", i-1)
		}
		if erased(i) {
			was++
		}
	}
	if was > 6 {
		t.Errorf("overwritten %d times in six hours", was)
	}
}
