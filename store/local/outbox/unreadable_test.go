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
