package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store/durable"
)

var errDisk = errors.New("input/output error")

// badDisk is a disk whose reads and removals fail while they are told to.
type badDisk struct {
	durable.OS
	reads, removals atomic.Bool
}

type badFile struct {
	durable.File
	disk *badDisk
}

func (d *badDisk) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return badFile{f, d}, nil
}

func (d *badDisk) Remove(name string) error {
	if d.removals.Load() {
		return errDisk
	}
	return d.OS.Remove(name)
}

func (f badFile) ReadAt(b []byte, at int64) (int, error) {
	if f.disk.reads.Load() {
		return 0, errDisk
	}
	return f.File.ReadAt(b, at)
}

// TestUnreadableDisk holds that nothing is lost when reads or removals fail for a
// while: neither when the outbox is opened, nor when items are offered again.
func TestUnreadableDisk(t *testing.T) {
	const all, each = 200, 20 // items, and how many of them one is handed over of
	for _, keepFor := range []time.Duration{0, 48 * time.Hour} {
		for name, fail := range map[string]func(*badDisk, bool){
			"reads":    func(d *badDisk, bad bool) { d.reads.Store(bad) },
			"removals": func(d *badDisk, bad bool) { d.removals.Store(bad) },
		} {
			t.Run(fmt.Sprintf("%s, kept for %v", name, keepFor), func(t *testing.T) {
				disk := &badDisk{}
				path := filepath.Join(t.TempDir(), "outbox.log")
				c := Config{Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20,
					SegmentBytes: 4 << 10, KeepFor: keepFor, Log: slog.New(slog.DiscardHandler), Now: time.Now}
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

				fail(disk, true)
				if name == "reads" {
					if _, err := Open(c); !errors.Is(err, errDisk) {
						t.Fatalf("opened on a disk that cannot be read: %v", err)
					}
				}
				fail(disk, false)
				o = opened()
				if n := o.Len(); n != all-all/each {
					t.Fatalf("%d items wait after that, want %d", n, all-all/each)
				}
				fail(disk, true)
				if items, err := o.Pending(all, 1<<20, nil); name == "reads" && !errors.Is(err, errDisk) {
					t.Errorf("%d items read, %v", len(items), err)
				}
				if err := o.OfferAgain(t.Context()); !errors.Is(err, errDisk) {
					t.Errorf("offered again: %v", err)
				}
				if n := o.Len(); n < all-all/each {
					t.Errorf("%d items wait after a failed offer, want %d at least", n, all-all/each)
				}
				fail(disk, false)
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
