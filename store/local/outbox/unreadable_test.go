package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

var errDisk = errors.New("input/output error")

// failing returns what a disk is told to do whose operations of some kinds fail.
func failing(kinds ...durabletest.Kind) func(durabletest.Op) error {
	return func(op durabletest.Op) error {
		if slices.Contains(kinds, op.Kind) {
			return errDisk
		}
		return nil
	}
}

// TestUnreadableDisk holds that nothing is lost when reads or removals fail for a
// while: neither when the outbox is opened, nor when items are offered again.
func TestUnreadableDisk(t *testing.T) {
	const all, each = 200, 20 // items, and how many of them one is handed over of
	for _, keepFor := range []time.Duration{0, 48 * time.Hour} {
		for _, kind := range []durabletest.Kind{durabletest.ReadAt, durabletest.Remove} {
			t.Run(fmt.Sprintf("%s, kept for %v", kind, keepFor), func(t *testing.T) {
				dir := t.TempDir()
				var passed atomic.Int64 // of the clock
				disk := durabletest.New(t, dir)
				path := filepath.Join(dir, "outbox.log")
				c := Config{Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20,
					SegmentBytes: 4 << 10, KeepFor: keepFor, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }}
				opened := func() *Outbox {
					t.Helper()
					o, err := Open(c)
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				closed := func(o *Outbox) {
					t.Helper()
					if err := o.Close(); err != nil {
						t.Fatal(err)
					}
				}
				o := opened()
				for i := range all {
					if err := o.Append(t.Context(), Item{fmt.Sprintf("lead_%04d", i), make([]byte, 100)}); err != nil {
						t.Fatal(err)
					}
				}
				for i := 0; i < all; i += each {
					if err := o.Remove(t.Context(), fmt.Sprintf("lead_%04d", i)); err != nil {
						t.Fatal(err)
					}
				}
				closed(o)

				disk.Before(failing(kind))
				if kind == durabletest.ReadAt {
					o = opened() // and finds nothing
					if n := o.Len(); n > 0 || o.Unread() == 0 {
						t.Fatalf("%d items wait on a disk that cannot be read, %d bytes are not", n, o.Unread())
					}
					if err := o.OfferAgain(t.Context()); !errors.Is(err, errDisk) {
						t.Errorf("offered again from a disk that cannot be read: %v", err)
					}
					closed(o)
				}
				disk.Before(failing())
				o = opened()
				if n := o.Len(); n != all-all/each {
					t.Fatalf("%d items wait after that, want %d", n, all-all/each)
				}
				disk.Before(failing(kind))
				if items, err := o.Pending(all, 1<<20, nil); kind == durabletest.ReadAt && !errors.Is(err, errDisk) {
					t.Errorf("%d items read, %v", len(items), err)
				}
				if err := o.OfferAgain(t.Context()); !errors.Is(err, errDisk) {
					t.Errorf("offered again: %v", err)
				}
				if n := o.Len(); n < all-all/each {
					t.Errorf("%d items wait after a failed offer, want %d at least", n, all-all/each)
				}
				disk.Before(failing())
				passed.Add(int64(unreadFor))
				if items, err := o.Pending(all, 1<<20, nil); err != nil || len(items) != o.Len() {
					t.Errorf("%d items read of %d, %v", len(items), o.Len(), err)
				}
				if err := o.OfferAgain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := o.Len(); n != all {
					t.Errorf("%d items wait after the offer, want %d", n, all)
				}
				closed(o)
				o = opened()
				if n := o.Len(); n != all {
					t.Errorf("%d items wait after a restart, want %d", n, all)
				}
				closed(o)
			})
		}
	}
}

// TestRemovedWithoutMarks: items are removed though the disk does not take that, which is one
// line in the log until it does.
func TestRemovedWithoutMarks(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	path := filepath.Join(dir, "outbox")
	log, logged := logtest.New()
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_a", "lead_b", "lead_c", "lead_d", "lead_e")
	for _, at := range []struct {
		fails []durabletest.Kind
		id    string
		lines int
	}{{[]durabletest.Kind{durabletest.Make}, "lead_a", 1}, {[]durabletest.Kind{durabletest.Make}, "lead_b", 1},
		{nil, "lead_c", 1}, {[]durabletest.Kind{durabletest.Write}, "lead_d", 2}} {
		disk.Before(failing(at.fails...))
		if err := o.Remove(t.Context(), at.id); errors.Is(err, ErrUnmarked) != (at.fails != nil) || logged.Lines() != at.lines {
			t.Errorf("%s is removed while %v fail: %v, log: %s", at.id, at.fails, err, logged)
		}
	}
	if ids := pending(t, o); !slices.Equal(ids, []string{"lead_e"}) {
		t.Errorf("%v wait", ids)
	}
}

// TestBlocksAreTriedInTurn: a block that the disk does not read is tried once for all items in
// it, those behind come first, and blocks that are tried again do not keep others from that.
func TestBlocksAreTriedInTurn(t *testing.T) {
	b := newHurtBox(t, 0)
	const bad, all = 3 * maxUnreadTries, 4*3*maxUnreadTries + 40
	b.fill(t, 0, all)
	var blocks []int64
	for i := range int64(bad) {
		blocks = append(blocks, i)
	}
	b.disk.Set(b.path, blocks...)
	for range bad / maxUnreadTries {
		if got, err := b.come(t, 1000); !errors.Is(err, ErrMoreBehind) || len(got) > 0 {
			t.Errorf("%v come while items are not tried, %v", got, err)
		}
	}
	got, err := b.come(t, 1000)
	if unread := all - len(got); err != nil || !got[all-1] || unread > bad*blockSize/hurtRecord+2 {
		t.Fatalf("%d of %d items come behind %d blocks, %v", len(got), all, bad, err)
	}
	b.passed.Add(int64(unreadFor))
	for range 2 {
		if again, err := b.come(t, 1000); err == nil || errors.Is(err, ErrMoreBehind) || len(again) != len(got) {
			t.Errorf("%d items come when others are to be tried again, want %d, %v", len(again), len(got), err)
		}
	}
	b.disk.Set(b.path, blocks[:bad-1]...)
	b.passed.Add(int64(unreadFor)) // the others are due as well
	if again, err := b.come(t, 1000); err == nil || len(again) <= len(got) {
		t.Errorf("%d items come when the disk reads a block again, %d before, %v", len(again), len(got), err)
	}
}
