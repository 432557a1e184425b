package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// longReason makes a line of more than one sector, so that it can be written in part.
var longReason = strings.Repeat("why ", 200)

// setAsideScenario has items wait and sets all but the last aside. It returns the ids that
// were accepted.
func setAsideScenario(t *testing.T, disk *durabletest.Disk, dir string) (accepted []string) {
	t.Helper()
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		return nil
	}
	defer o.Close()
	for n := range 4 {
		id := fmt.Sprintf("lead_%d", n)
		if o.Append(t.Context(), Item{id, bodyOf(id)}) == nil {
			accepted = append(accepted, id)
		}
	}
	for _, id := range accepted[:max(0, len(accepted)-1)] {
		_ = o.SetAside(t.Context(), Refused{Item{id, bodyOf(id)}, longReason}) // after an error it waits
	}
	return accepted
}

// mustBeSomewhere fails unless each of ids waits or was set aside, and the others can be
// set aside as well.
func mustBeSomewhere(t *testing.T, when, dir string, ids []string) {
	t.Helper()
	o := openOn(t, nil, dir)
	waiting := pending(t, o)
	for _, id := range waiting {
		if err := o.SetAside(t.Context(), Refused{Item{id, bodyOf(id)}, longReason}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	var aside []string
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		aside = append(aside, it.ID)
	}
	for _, id := range ids {
		if !slices.Contains(aside, id) {
			t.Fatalf("%s: of the accepted %v, %v waited and %v are aside", when, ids, waiting, aside)
		}
	}
}

// TestSetAsidePowerCut: whenever the power goes, an item waits or was set aside, and what
// was half written spoils no later line.
func TestSetAsidePowerCut(t *testing.T) {
	var accepted []string
	durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
		accepted = setAsideScenario(t, disk, dir)
	}, func(when, dir string) { mustBeSomewhere(t, when, dir, accepted) })
}

// TestSetAsideFailingDisk has each operation fail in turn, and then restarts the process
// or cuts the power.
func TestSetAsideFailingDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{durabletest.Make, durabletest.Write, durabletest.Sync, durabletest.SyncDir} {
		for n, asked := 1, 1; n <= asked; n++ {
			for _, cut := range []bool{false, true} {
				dir := t.TempDir()
				disk := durabletest.New(t, dir)
				disk.Fail(kind, n, syscall.EIO)
				accepted := setAsideScenario(t, disk, dir)
				asked = disk.Count(kind)
				if cut {
					disk.Cut(nil)
				}
				mustBeSomewhere(t, fmt.Sprintf("%s %d failed, power cut: %t", kind, n, cut), dir, accepted)
			}
		}
	}
}

// TestSetAsideNotOnDisk: an item whose line may not be on disk still waits.
func TestSetAsideNotOnDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{durabletest.Make, durabletest.Write, durabletest.Sync, durabletest.SyncDir} {
		dir := t.TempDir()
		disk := durabletest.New(t, dir)
		o := openOn(t, disk, dir)
		add(t, o, "lead_a")
		disk.Before(func(op durabletest.Op) error {
			if op.Kind == kind && (kind == durabletest.SyncDir || op.Path == o.cfg.RejectedPath) {
				return syscall.EIO
			}
			return nil
		})
		if err := o.SetAside(t.Context(), Refused{Item{"lead_a", bodyOf("lead_a")}, "why"}); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s failed: %v", kind, err)
		}
		expect(t, o, "lead_a")
	}
}

// TestSetAsideInPart: of a batch that the disk takes in part no line stays, or each further try
// would add it again.
func TestSetAsideInPart(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	o := openOn(t, disk, dir)
	ids := []string{"lead_a", "lead_b", "lead_c", "lead_d"}
	refused := make([]Refused, len(ids))
	for i, id := range ids {
		add(t, o, id)
		refused[i] = Refused{Item{id, bodyOf(id)}, "why"}
	}
	full := true
	disk.Before(func(op durabletest.Op) error {
		if full && op.Kind == durabletest.Write && op.Path == o.cfg.RejectedPath {
			return syscall.ENOSPC
		}
		return nil
	})
	for range 2 {
		if err := o.SetAside(t.Context(), refused...); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	expect(t, o, ids...)
	full = false
	if err := o.SetAside(t.Context(), refused...); err != nil {
		t.Fatal(err)
	}
	expect(t, o)
	var aside []string
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatal(err)
		}
		aside = append(aside, it.ID)
	}
	if !slices.Equal(aside, ids) {
		t.Errorf("set aside are %v, want %v", aside, ids)
	}
}

// TestSetAsideLargest: the largest item can be read again, though it is no JSON.
func TestSetAsideLargest(t *testing.T) {
	o := openOn(t, nil, t.TempDir())
	want := Item{strings.Repeat("x", maxID), bytes.Repeat([]byte{0xff}, maxBody)}
	if err := o.SetAside(t.Context(), Refused{want, longReason}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for it, err := range o.Rejected() {
		if n++; err != nil || it.ID != want.ID || !bytes.Equal(it.Body, want.Body) {
			t.Errorf("item %d: %d bytes, %v", n, len(it.Body), err)
		}
	}
	if n != 1 {
		t.Errorf("%d items", n)
	}
}

// TestRemoveRejectedLasts: what was set aside and handed over is not there again after a
// power cut.
func TestRemoveRejectedLasts(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	setAsideScenario(t, disk, dir)
	o := openOn(t, disk, dir)
	removeAside(t, o)
	disk.Cut(nil)
	for it := range openOn(t, nil, dir).Rejected() {
		t.Errorf("%q is there again", it)
	}
}

// removeAside removes what was set aside, or only the items with some ids.
func removeAside(t *testing.T, o *Outbox, ids ...string) {
	t.Helper()
	if err := o.RemoveRejected(linesOf(o, ids...)); err != nil {
		t.Error(err)
	}
}

// linesOf returns the lines of all items that were set aside, or only of those with some ids.
func linesOf(o *Outbox, ids ...string) map[Line]bool {
	lines := map[Line]bool{}
	for it, err := range o.Rejected() {
		if err == nil && (len(ids) == 0 || slices.Contains(ids, it.ID)) {
			lines[it.Line] = true
		}
	}
	return lines
}

// asideIDs returns the ids of the items that were set aside.
func asideIDs(t *testing.T, o *Outbox) (ids []string) {
	t.Helper()
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, it.ID)
	}
	return ids
}

// TestRemoveSomeRejected: of the items that were set aside, those that were handed over leave the
// disk though others stay, among them what was set aside since they were read.
func TestRemoveSomeRejected(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("a full disk %t", full), func(t *testing.T) { removeSome(t, full) })
	}
}

func removeSome(t *testing.T, full bool) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	disk.Before(func(op durabletest.Op) error {
		if full && op.Kind == durabletest.Write && strings.Contains(op.Path, ".part-") {
			return syscall.ENOSPC
		}
		return nil
	})
	o := openOn(t, disk, dir)
	aside := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if err := o.SetAside(t.Context(), Refused{Item{id, []byte(`{"email":"` + id + `@example.com"}`)}, "why"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	aside("lead_a", "lead_b", "lead_c")
	taken := linesOf(o, "lead_a", "lead_c")
	aside("lead_d")
	for range 2 { // a second time there is nothing to remove
		if err := o.RemoveRejected(taken); err != nil {
			t.Fatal(err)
		}
		if got := asideIDs(t, o); !slices.Equal(got, []string{"lead_b", "lead_d"}) {
			t.Errorf("%v are aside", got)
		}
		if text := string(read(t, o.cfg.RejectedPath)); strings.Contains(text, "lead_a@") || strings.Contains(text, "lead_c@") || !full && strings.Count(text, "\n") != 2 {
			t.Errorf("the file holds %s", text)
		}
	}
	aside("lead_e")
	if got := asideIDs(t, o); !slices.Equal(got, []string{"lead_b", "lead_d", "lead_e"}) {
		t.Errorf("%v are aside", got)
	}
}

// TestHalfOverwritten: what a power cut left of a line that was being overwritten is not offered,
// and goes with the next that is removed.
func TestHalfOverwritten(t *testing.T) {
	o := openOn(t, nil, t.TempDir())
	for _, id := range []string{"lead_a", "lead_b", "lead_c"} {
		if err := o.SetAside(t.Context(), Refused{Item{id, bodyOf(id)}, "why"}); err != nil {
			t.Fatal(err)
		}
	}
	text := read(t, o.cfg.RejectedPath)
	text[0] = ' '
	if err := os.WriteFile(o.cfg.RejectedPath, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := asideIDs(t, o); !slices.Equal(got, []string{"lead_b", "lead_c"}) {
		t.Errorf("%v are aside", got)
	}
	removeAside(t, o, "lead_b")
	if text := string(read(t, o.cfg.RejectedPath)); strings.Contains(text, "lead_a") || strings.Count(text, "\n") != 1 {
		t.Errorf("the file holds %s", text)
	}
}

// TestSetAsideBesideRemoval: what is set aside while others are removed is not lost.
func TestSetAsideBesideRemoval(t *testing.T) {
	o := openOn(t, nil, t.TempDir())
	var want []string
	for i := range 100 {
		gone, stays := fmt.Sprintf("gone_%02d", i), fmt.Sprintf("lead_%02d", i)
		if err := o.SetAside(t.Context(), Refused{Item{gone, bodyOf(gone)}, "why"}); err != nil {
			t.Fatal(err)
		}
		taken := linesOf(o, gone)
		var adding sync.WaitGroup
		adding.Go(func() {
			if err := o.SetAside(t.Context(), Refused{Item{stays, bodyOf(stays)}, "why"}); err != nil {
				t.Error(err)
			}
		})
		if err := o.RemoveRejected(taken); err != nil {
			t.Error(err)
		}
		adding.Wait()
		want = append(want, stays)
	}
	if got := asideIDs(t, o); !slices.Equal(got, want) {
		t.Errorf("%v are aside", got)
	}
}

// removeSomeScenario sets three items aside and removes the second, whose id it returns if that
// succeeded.
func removeSomeScenario(t *testing.T, disk *durabletest.Disk, dir string) (accepted []string, removed string) {
	t.Helper()
	accepted = setAsideScenario(t, disk, dir)
	if len(accepted) < 2 {
		return accepted, ""
	}
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		return accepted, ""
	}
	defer o.Close()
	if lines := linesOf(o, accepted[1]); o.RemoveRejected(lines) == nil && len(lines) == 1 {
		removed = accepted[1]
	}
	return slices.Delete(accepted, 1, 2), removed
}

// mustBeRemoved fails unless an item that was removed, if one was, is gone for good.
func mustBeRemoved(t *testing.T, when, dir, id string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, "rejected")); id != "" && (err != nil || bytes.Contains(b, []byte(id))) {
		t.Errorf("%s: %s was removed and is there: %t, %v", when, id, err == nil, err)
	}
}

// TestRemoveSomePowerCut: whenever the power goes while some items are removed, the others are
// still there, and what was removed is not once that has succeeded.
func TestRemoveSomePowerCut(t *testing.T) {
	var accepted []string
	removed, often := "", 0
	durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
		accepted, removed = removeSomeScenario(t, disk, dir)
	}, func(when, dir string) {
		if removed != "" {
			often++
		}
		mustBeRemoved(t, when, dir, removed)
		mustBeSomewhere(t, when, dir, accepted)
	})
	if often == 0 {
		t.Error("nothing was ever removed")
	}
}

// TestRemoveSomeFailingDisk has each operation fail in turn while some items are removed, and
// then restarts the process or cuts the power.
func TestRemoveSomeFailingDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{durabletest.Make, durabletest.Write, durabletest.Sync, durabletest.SyncDir, durabletest.Rename} {
		for n, asked := 1, 1; n <= asked; n++ {
			for _, cut := range []bool{false, true} {
				dir := t.TempDir()
				disk := durabletest.New(t, dir)
				disk.Fail(kind, n, syscall.EIO)
				accepted, removed := removeSomeScenario(t, disk, dir)
				asked = disk.Count(kind)
				if cut {
					disk.Cut(nil)
				}
				when := fmt.Sprintf("%s %d failed, power cut: %t", kind, n, cut)
				mustBeRemoved(t, when, dir, removed)
				mustBeSomewhere(t, when, dir, accepted)
			}
		}
	}
}

// openOn opens an outbox with a disk; nil: the machine's.
func openOn(t *testing.T, disk *durabletest.Disk, dir string) *Outbox {
	t.Helper()
	c := Config{Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if disk != nil {
		c.Disk = durable.Disk{FS: disk}
	}
	o, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}
