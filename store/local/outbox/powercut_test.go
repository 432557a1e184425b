package outbox

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// boxScenario fills an outbox, hands over what it holds, and does so until its
// file has been rewritten and emptied. It returns the ids that were accepted and
// not handed over, as far as the disk went along.
func boxScenario(t *testing.T, disk *durabletest.Disk, dir string, segment int64) (accepted []string) {
	t.Helper()
	o, err := Open(Config{
		Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 2048, SegmentBytes: segment, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		return nil
	}
	defer o.Close()
	n := 0
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
		accepted = slices.Clone(accepted[len(handedOver):])
	}
	return accepted
}

// kept fails unless all of ids wait in the outbox, in their order, and it goes on.
func kept(t *testing.T, when, dir string, ids []string) {
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

// boxSegments are sizes of segments for boxScenario: all in one, and many.
var boxSegments = []int64{2048, 200}

func TestOutboxPowerCut(t *testing.T) {
	for _, segment := range boxSegments {
		var accepted []string
		replaced, removed := 0, 0
		durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
			accepted = boxScenario(t, disk, dir, segment)
			replaced, removed = max(replaced, disk.Count(durabletest.Rename)), max(removed, disk.Count(durabletest.Remove))
		}, func(when, dir string) { kept(t, fmt.Sprintf("segments of %d, %s", segment, when), dir, accepted) })
		if replaced < 2 && removed < 10 {
			t.Errorf("segments of %d: %d were replaced and %d removed", segment, replaced, removed)
		}
	}
}

// TestOutboxFailingDisk has each sync, write and rename fail in turn, and then
// cuts the power.
func TestOutboxFailingDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{
		durabletest.Sync, durabletest.SyncDir, durabletest.Write, durabletest.Truncate, durabletest.Rename, durabletest.Make, durabletest.Remove,
	} {
		for _, segment := range boxSegments {
			t.Run(fmt.Sprintf("%s, segments of %d", kind, segment), func(t *testing.T) { failEach(t, kind, segment) })
		}
	}
}

// failEach runs boxScenario with the n-th operation of a kind failing, for each n.
func failEach(t *testing.T, kind durabletest.Kind, segment int64) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		disk := durabletest.New(t, dir)
		disk.Fail(kind, n, syscall.EIO)
		accepted := boxScenario(t, disk, dir, segment)
		asked := disk.Count(kind)
		disk.Cut(nil)
		kept(t, fmt.Sprintf("%s %d failed", kind, n), dir, accepted)
		if len(disk.AfterFailedSync()) > 0 {
			t.Errorf("%s %d failed: written again after a failed sync: %v", kind, n, disk.AfterFailedSync())
		}
		if asked < n {
			break
		}
	}
}
