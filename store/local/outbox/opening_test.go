package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// TestSegmentThatFailsIsNotOpened: an outbox whose segment ends in a record cut short is
// opened once the disk says how long the segment is, cuts it and syncs it, and not before.
func TestSegmentThatFailsIsNotOpened(t *testing.T) {
	for _, kind := range []durabletest.Kind{durabletest.Stat, durabletest.Truncate, durabletest.Sync} {
		dir := t.TempDir()
		path := filepath.Join(dir, "outbox")
		o := openBox(t, path, 1<<20, nil)
		add(t, o, "lead_a", "lead_b", "lead_c")
		remove(t, o, "lead_b")
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		truncate(t, path, info.Size()-1)
		disk := durabletest.New(t, dir)
		disk.Before(failing(kind))
		c := Config{Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20,
			Log: slog.New(slog.DiscardHandler), Now: time.Now}
		if o, err := Open(c); !errors.Is(err, errDisk) {
			t.Fatalf("%s fails: opened %v, %v", kind, o, err)
		}
		disk.Before(failing())
		if o, err = Open(c); err != nil {
			t.Fatal(err)
		}
		expect(t, o, "lead_a")
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSegmentsAreLarge: an outbox that is given no size for its segments keeps items that
// come one by one in one file.
func TestSegmentsAreLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<20, nil)
	add(t, o, "lead_a", "lead_b", "lead_c")
	if got := files(t, path); got != "outbox" {
		t.Errorf("files %s", got)
	}
}

// TestRestampLasts: what was handed over while the clock was ahead is off the disk 48 hours
// after the clock was put right, though the process was started again a minute before.
func TestRestampLasts(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	k.pass(1000 * time.Hour)
	add(t, o, ids(4)...) // one more than a segment
	remove(t, o, ids(3)...)
	atRest(t, o)
	k.pass(-1000 * time.Hour)
	k.rest(t, o)
	k.pass(keepFor - time.Minute)
	o = k.reopen(o, keepFor)
	k.rest(t, o)
	if got := files(t, k.path); !strings.Contains(got, keptSuffix) {
		t.Errorf("a minute too early: files %s", got)
	}
	k.pass(time.Minute)
	upkeep(t, o)
	if got := files(t, k.path); strings.Contains(got, keptSuffix) {
		t.Errorf("files %s", got)
	}
}

// TestRestampThatFails: what the disk does not rename after the clock was put right is still
// offered again under its old name, and is renamed as soon as the disk does.
func TestRestampThatFails(t *testing.T) {
	k := newKeeper(t)
	disk := durabletest.New(t, filepath.Dir(k.path))
	k.disk = durable.Disk{FS: disk}
	o := k.open(keepFor)
	k.pass(1000 * time.Hour)
	add(t, o, ids(4)...) // one more than a segment
	remove(t, o, ids(3)...)
	atRest(t, o)
	var tries atomic.Int64
	disk.Before(func(op durabletest.Op) error {
		if op.Kind != durabletest.Rename {
			return nil
		}
		tries.Add(1)
		return errDisk
	})
	k.pass(-1000 * time.Hour)
	k.rest(t, o)
	disk.Before(func(durabletest.Op) error { return nil })
	if tries.Load() == 0 {
		t.Fatal("nothing was renamed")
	}
	offerAgain(t, o)
	expect(t, o, ids(4)...)
	remove(t, o, ids(3)...)
	k.pass(keepFor)
	k.rest(t, o)
	if got := files(t, k.path); strings.Contains(got, keptSuffix) {
		t.Errorf("files %s", got)
	}
}

// TestKeptIsRemovedAtTheStart: what is not to be kept any more is off the disk once the
// outbox is open, not only after the first upkeep.
func TestKeptIsRemovedAtTheStart(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	add(t, o, ids(4)...) // one more than a segment
	remove(t, o, ids(3)...)
	atRest(t, o)
	if got := files(t, k.path); !strings.Contains(got, keptSuffix) {
		t.Fatalf("nothing is kept: files %s", got)
	}
	k.reopen(o, 0)
	if got := files(t, k.path); strings.Contains(got, keptSuffix) {
		t.Errorf("files %s", got)
	}
}

// TestReclaimRests: a segment that could not be made smaller is not written again for each
// item that comes within the next minute, and is after that.
func TestReclaimRests(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	now := time.Now()
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 4 * recordOf, SegmentBytes: 3 * recordOf, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, ids(4)...)
	inWriter(t, o, func() { o.rest = now.Add(restAfter) }) // else it is tidied as they are removed
	remove(t, o, "lead_00", "lead_01")
	tries := 0
	disk.Before(func(op durabletest.Op) error {
		if op.Kind != durabletest.Make {
			return nil
		}
		tries++
		return syscall.ENOSPC
	})
	for minute := 1; minute <= 2; minute++ {
		inWriter(t, o, func() { now = now.Add(restAfter) })
		for n := range 3 {
			id := fmt.Sprintf("more_%02d", n)
			if err := o.Append(t.Context(), Item{id, bodyOf(id)}); !errors.Is(err, store.ErrLimit) {
				t.Fatalf("%s: %v", id, err)
			}
		}
		if tries != minute {
			t.Errorf("minute %d: %d tries in all", minute, tries)
		}
	}
}

// TestRejectedLines reads each line as the item that was set aside, or as one of its own
// where it cannot be that.
func TestRejectedLines(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	at := `"at":"2026-01-02T02:04:05Z","reason":"why",`
	lines := []struct{ line, id, body string }{
		{`{"id":"lead_a",` + at + `"body":{"name":"A"}}`, "lead_a", `{"name":"A"}`},
		{`{"id":"lead_b",` + at + `"body":null,"raw":"QkI="}`, "lead_b", "BB"},
		{`{"id":"lead_c","at":5,"body":{"name":"C"}}`, "", ""}, // what follows the time is not known to be read
		{`{` + at + `"body":{"name":"D"}}`, "", ""},
		{`{"id":"lead_e",` + at, "", ""},
	}
	text := ""
	for _, l := range lines {
		text += l.line + "\n"
	}
	write(t, o.cfg.RejectedPath, []byte(text))
	var got []Item
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.Item)
	}
	if len(got) != len(lines) {
		t.Fatalf("%d items of %d lines", len(got), len(lines))
	}
	for i, l := range lines {
		id, body := l.id, l.body
		if id == "" {
			body = l.line
		}
		if id != "" && got[i].ID != id || id == "" && !strings.HasPrefix(got[i].ID, "line_") || string(got[i].Body) != body {
			t.Errorf("%s: %s %s", l.line, got[i].ID, got[i].Body)
		}
	}
}
