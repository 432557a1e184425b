package local

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// cuts runs a scenario again and again, with the power cut at each of its
// operations in turn, until it comes to its end. Between the cut and verify, the
// directory holds what was synced and, after the first round, some of the rest.
func cuts(t *testing.T, scenario func(disk *durabletest.Disk, dir string), verify func(when, dir string)) {
	t.Helper()
	for seed := range uint64(4) {
		for at := 1; ; at++ {
			dir := t.TempDir()
			disk := durabletest.New(t, dir)
			disk.CutAt(at)
			scenario(disk, dir)
			ops := disk.Ops()
			var rng *rand.Rand
			if seed > 0 {
				rng = rand.New(rand.NewPCG(seed, uint64(at)))
			}
			disk.Cut(rng)
			verify(fmt.Sprintf("seed %d, cut at operation %d", seed, at), dir)
			if ops < at {
				break
			}
		}
	}
}

// boxScenario fills an outbox, hands over what it holds, and does so until its
// file has been rewritten and emptied. It returns the ids that were accepted and
// not handed over, as far as the disk went along.
func boxScenario(t *testing.T, disk *durabletest.Disk, dir string) (accepted []string) {
	t.Helper()
	o, err := openOutbox(outboxConfig{
		disk: durable.Disk{FS: disk}, path: filepath.Join(dir, "outbox"), rejectedPath: filepath.Join(dir, "rejected"),
		maxSize: 2048, log: slog.New(slog.DiscardHandler), now: time.Now,
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
	o, err := openOutbox(outboxConfig{
		path: filepath.Join(dir, "outbox"), rejectedPath: filepath.Join(dir, "rejected"),
		maxSize: 1 << 20, log: slog.New(slog.DiscardHandler), now: time.Now,
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
	var accepted []string
	most := 0
	cuts(t, func(disk *durabletest.Disk, dir string) {
		accepted = boxScenario(t, disk, dir)
		most = max(most, disk.Count(durabletest.Rename))
	}, func(when, dir string) { kept(t, when, dir, accepted) })
	if most < 2 {
		t.Errorf("the file was replaced %d times, want 2 at least", most)
	}
}

// TestOutboxFailingDisk has each sync, write and rename fail in turn, and then
// cuts the power.
func TestOutboxFailingDisk(t *testing.T) {
	for _, kind := range []durabletest.Kind{
		durabletest.Sync, durabletest.SyncDir, durabletest.Write, durabletest.Truncate, durabletest.Rename, durabletest.Make,
	} {
		t.Run(string(kind), func(t *testing.T) {
			for n := 1; ; n++ {
				dir := t.TempDir()
				disk := durabletest.New(t, dir)
				disk.Fail(kind, n, syscall.EIO)
				accepted := boxScenario(t, disk, dir)
				asked := disk.Count(kind)
				disk.Cut(nil)
				kept(t, fmt.Sprintf("%s %d failed", kind, n), dir, accepted)
				if len(disk.AfterFailedSync) > 0 {
					t.Errorf("%s %d failed: written again after a failed sync: %v", kind, n, disk.AfterFailedSync)
				}
				if asked < n {
					break
				}
			}
		})
	}
}

// TestRecordsPowerCut holds that the records after a power cut are those of one
// moment, and of none before the last sync.
func TestRecordsPowerCut(t *testing.T) {
	var states []map[string]string // after each change, the first of none
	synced := 0
	most := 0
	cuts(t, func(disk *durabletest.Disk, dir string) {
		now := map[string]string{}
		states, synced = []map[string]string{maps.Clone(now)}, 0
		f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			return
		}
		f.shrinkFrom = 256
		for i := range 60 {
			key := fmt.Sprint("k", i%7)
			if i%5 == 4 {
				if f.remove(key) == nil {
					delete(now, key)
				}
			} else if value := seal(key, putText(newValue(16), fmt.Sprint("value ", i))); f.set(key, value) == nil {
				now[key] = value
			}
			states = append(states, maps.Clone(now))
			switch {
			case i%6 == 5:
				if f.sync() == nil {
					synced = len(states) - 1
				}
			case i%11 == 10:
				_ = f.shrink()
			}
		}
		_ = f.close()
		most = max(most, disk.Count(durabletest.Rename))
	}, func(when, dir string) {
		f, err := openFile(durable.Disk{}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer f.close()
		got := map[string]string{}
		if err := f.each("", "", func(key, value string) bool { got[key] = value; return true }); err != nil {
			t.Fatal(err)
		}
		for _, state := range states[synced:] {
			if maps.Equal(got, state) {
				return
			}
		}
		t.Fatalf("%s: %d records that there never were at one time since the last sync (change %d)", when, len(got), synced)
	})
	if most < 2 {
		t.Errorf("the file was rewritten %d times, want 2 at least", most)
	}
}
