//go:build !race

package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// These tests cut the power at each operation of a scenario of one goroutine, thousands
// of times. `make test` runs them without the race detector.

// boxKind is how an outbox of boxScenario keeps items.
type boxKind struct {
	segment int64 // bytes
	keepFor time.Duration
}

var boxKinds = []boxKind{{segment: 2048}, {segment: 200}, {segment: 200, keepFor: time.Hour}}

// boxScenario fills an outbox, hands over what it holds, and does so until its
// files have been rewritten, emptied and removed. If items are kept, the last that
// were handed over are offered again. It returns the ids that were accepted and
// not handed over, as far as the disk went along.
func boxScenario(t *testing.T, disk *durabletest.Disk, dir string, kind boxKind) (accepted []string) {
	t.Helper()
	o, err := Open(Config{
		Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 2048, SegmentBytes: kind.segment, KeepFor: kind.keepFor, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		return nil
	}
	defer o.Close()
	n := 0
	var last []string
	for _, round := range []struct {
		add  int
		keep int
	}{{3, 3}, {16, 1}, {8, 0}, {20, 2}, {4, 4}} {
		for range round.add {
			n++
			id := fmt.Sprintf("lead_%d", n)
			if o.Append(t.Context(), Item{id, bodyOf(id)}) == nil {
				accepted = append(accepted, id)
			}
		}
		handedOver := accepted[:max(0, len(accepted)-round.keep)]
		_ = o.Remove(t.Context(), handedOver...) // a lead that is offered twice is no loss
		last = handedOver
		accepted = slices.Clone(accepted[len(handedOver):])
	}
	if kind.keepFor > 0 && o.OfferAgain(t.Context()) == nil {
		accepted = append(slices.Clone(last), accepted...)
	}
	return accepted
}

// mustHold fails unless all of ids wait in the outbox, in their order, and it goes on.
func mustHold(t *testing.T, when, dir string, ids []string) {
	t.Helper()
	o, err := Open(Config{
		Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer o.Close()
	add(t, o, "lead_after")
	got := pending(t, o)
	want := append(slices.Clone(ids), "lead_after")
	got = slices.DeleteFunc(got, func(id string) bool { return !slices.Contains(want, id) })
	if !slices.Equal(got, want) {
		t.Fatalf("%s: of the accepted %v only %v wait", when, want, got)
	}
}

func TestOutboxPowerCut(t *testing.T) {
	for _, kind := range boxKinds {
		var accepted []string
		replaced, removed := 0, 0
		durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
			accepted = boxScenario(t, disk, dir, kind)
			replaced, removed = max(replaced, disk.Count(durabletest.Rename)), max(removed, disk.Count(durabletest.Remove))
		}, func(when, dir string) { mustHold(t, fmt.Sprintf("%+v, %s", kind, when), dir, accepted) })
		if replaced < 2 && removed < 10 {
			t.Errorf("%+v: %d were replaced and %d removed", kind, replaced, removed)
		}
	}
}

// TestOutboxFailingDisk has each sync, write and rename fail in turn, and then
// restarts the process or cuts the power.
func TestOutboxFailingDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{
		durabletest.Sync, durabletest.SyncDir, durabletest.Write, durabletest.Truncate, durabletest.Rename, durabletest.Make, durabletest.Remove,
	} {
		for _, box := range boxKinds {
			t.Run(fmt.Sprintf("%s, %+v", kind, box), func(t *testing.T) { failEach(t, kind, box) })
		}
	}
}

// TestOpenSyncs: an item that a killed process had written but not synced is on
// disk before it counts as one that waits.
func TestOpenSyncs(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	f, err := disk.OpenFile(filepath.Join(dir, "outbox"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		_, err = f.Write(appendRecord(nil, recordLead, "lead_a", bodyOf("lead_a")))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	add(t, o, "lead_a")
	disk.Cut(nil)
	_ = o.Close() // which finds no power
	mustHold(t, "cut after the restart", dir, []string{"lead_a"})
}

// failEach runs boxScenario with the n-th operation of a kind failing, for each n.
func failEach(t *testing.T, kind durabletest.Kind, box boxKind) {
	for n := 1; ; n++ {
		asked := 0
		for _, cut := range []bool{false, true} {
			dir := t.TempDir()
			disk := durabletest.New(t, dir)
			disk.Fail(kind, n, syscall.EIO)
			accepted := boxScenario(t, disk, dir, box)
			asked = max(asked, disk.Count(kind))
			if cut {
				disk.Cut(nil)
			}
			mustHold(t, fmt.Sprintf("%s %d failed, power cut: %t", kind, n, cut), dir, accepted)
			if len(disk.AfterFailedSync()) > 0 {
				t.Errorf("%s %d failed: written again after a failed sync: %v", kind, n, disk.AfterFailedSync())
			}
		}
		if asked < n { // none failed
			return
		}
	}
}
