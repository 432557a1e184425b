package local

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/local/outbox"
	"partneredge/store/logtest"
)

// fillable returns a disk on which nothing can be written while full is set.
func fillable(t *testing.T, dir string) (disk *durabletest.Disk, full *atomic.Bool) {
	full = new(atomic.Bool)
	disk = durabletest.New(t, dir)
	disk.Before(func(op durabletest.Op) error {
		if full.Load() && (op.Kind == durabletest.Write || op.Kind == durabletest.Make) {
			return syscall.ENOSPC
		}
		return nil
	})
	return disk, full
}

// TestLimitsGoOnInMemory: on a full disk tokens are spent, addresses locked out
// and idempotency keys remembered as ever, and all of it is written once the disk
// has room.
func TestLimitsGoOnInMemory(t *testing.T) {
	dir := t.TempDir()
	disk, full := fillable(t, dir)
	log, logged := logtest.New()
	at := newClock()
	c := Config{Dir: dir, FS: disk, Log: log, Now: at.now, Lockout: LockoutRules{Failures: 3}}
	s := openTest(t, c)
	take(t, s, "a", 3)
	full.Store(true)
	for _, key := range []string{"a", "b"} {
		take(t, s, key, 4)
	}
	if b, _, err := s.Buckets.Take("a", 100); err != nil || b.Remaining != 92 {
		t.Errorf("%+v, %v; want 92 to remain", b, err)
	}
	for range 3 {
		if _, err := s.Lockouts.Failure("192.0.2.7"); err != nil {
			t.Fatal(err)
		}
	}
	once := func(s *Store) (repeated bool) {
		t.Helper()
		rec, repeated, err := s.Idempotency.Do(t.Context(), "order 7", func() (IdempotencyRecord, error) {
			return IdempotencyRecord{Digest: "d", ID: "lead_1"}, nil
		})
		if err != nil || rec.ID != "lead_1" {
			t.Fatalf("%+v, %v", rec, err)
		}
		return repeated
	}
	if once(s) || !once(s) {
		t.Error("an idempotency key was not made once and then repeated")
	}
	s.limits.catchUp()
	if !s.InMemory() {
		t.Error("the disk is full, and limits are not in memory")
	}
	full.Store(false)
	s.limits.catchUp()
	if s.InMemory() {
		t.Error("the disk has room, and limits are in memory")
	}
	s = reopen(t, s, c)
	if b, _, err := s.Buckets.Take("a", 100); err != nil || b.Remaining != 91 {
		t.Errorf("after a restart: %+v, %v; want 91 to remain", b, err)
	}
	if b, _, err := s.Buckets.Take("b", 100); err != nil || b.Remaining != 95 {
		t.Errorf("after a restart: %+v, %v; want 95 to remain", b, err)
	}
	if s.Lockouts.Lockout("192.0.2.7") == 0 || !once(s) {
		t.Error("after a restart: a lockout or an idempotency record is gone")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logged.String(), "going on in memory"); n != 1 {
		t.Errorf("said %d times:\n%s", n, logged)
	}
}

// TestKilledOnAFullDisk: a process that is killed while limits are in memory finds
// them as they were when the disk became full.
func TestKilledOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, full := fillable(t, dir)
	f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f.inMemory = true
	if err := f.set("k", seal("k", putText(newValue(16), "before"))); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if err := f.set("k", seal("k", putText(newValue(16), "after"))); err != nil {
		t.Fatal(err)
	}
	again, err := openFile(durable.Disk{}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	value, err := again.get("k")
	if fields := openValue(value); err != nil || fields.text() != "before" || again.damaged {
		t.Errorf("%q, %v, damaged %t", value, err, again.damaged)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}

// TestCatchUp: whatever was changed while the disk was full, and in between, is in
// the log in the end, and no more.
func TestCatchUp(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		dir := t.TempDir()
		disk, full := fillable(t, dir)
		path := filepath.Join(dir, "db")
		f, err := openFile(durable.Disk{FS: disk}, path, slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f.inMemory, f.shrinkFrom = true, 4096
		want := map[string]string{}
		for i := range 400 {
			key := fmt.Sprint("k", rng.IntN(30))
			switch n := rng.IntN(20); {
			case n == 0:
				full.Store(!full.Load())
			case n == 1:
				f.catchUp()
			case n == 2:
				_ = f.shrink() // which a full disk makes fail
			case n < 8:
				err = f.remove(key)
				delete(want, key)
			default:
				want[key] = seal(key, putText(newValue(16), strings.Repeat(fmt.Sprint(i), 1+rng.IntN(2000))))
				err = f.set(key, want[key])
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		full.Store(false)
		f.catchUp()
		if f.isBehind() {
			t.Errorf("seed %d: behind on a disk with room", seed)
		}
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		again, err := openFile(durable.Disk{}, path, slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := again.each("", "", func(key, value string) bool { got[key] = value; return true }); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) || again.damaged {
			t.Errorf("seed %d: %d keys after a restart, want %d; damaged %t", seed, len(got), len(want), again.damaged)
		}
		if err := again.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestartOnAFullDisk: a store opens while its disk takes nothing, with the leads
// that wait and the tokens that were spent, and goes on once there is room.
func TestRestartOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, full := fillable(t, dir)
	c := Config{Dir: dir, FS: disk, KeepLeads: time.Hour, Now: newClock().now}
	s := openTest(t, c)
	lead := func(id string) error {
		return s.Outbox.Append(t.Context(), outbox.Item{ID: id, Body: []byte(`{}`)})
	}
	take(t, s, "a", 3)
	for _, id := range []string{"lead_1", "lead_2"} {
		if err := lead(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Outbox.Remove(t.Context(), "lead_1"); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	s = reopen(t, s, c)
	if n := s.Outbox.Len(); n != 1 {
		t.Errorf("%d leads wait", n)
	}
	if b, _, err := s.Buckets.Take("a", 100); err != nil || b.Remaining != 96 {
		t.Errorf("%+v, %v; want 96 to remain", b, err)
	}
	if err := lead("lead_3"); err == nil {
		t.Error("a lead was accepted on a full disk")
	}
	if err := s.Outbox.OfferAgain(t.Context()); err != nil || s.Outbox.Len() != 2 {
		t.Errorf("offered again on a full disk: %v, %d wait", err, s.Outbox.Len())
	}
	full.Store(false)
	if err := lead("lead_3"); err != nil || s.Outbox.Len() != 3 {
		t.Errorf("on a disk with room: %v, %d wait", err, s.Outbox.Len())
	}
}

// TestResetOnAFullDisk: records are stale although the cursor cannot be stored, and
// those that were stored between two tries are so after the second one, also when
// the process ended in between.
func TestResetOnAFullDisk(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		dir := t.TempDir()
		disk, full := fillable(t, dir)
		c := Config{Dir: dir, FS: disk}
		s := openTest(t, c)
		stale := func(name string) bool {
			rec, held := s.Keys.Get(name)
			return held && rec.Stale()
		}
		put(t, s.Keys, "a", "key_a", "good", 5)
		if err := s.Advance(5, time.Now()); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		before := s.Cursor()
		if err := s.Reset(3, "his_2", false); err == nil || s.Cursor() != before || !stale("a") {
			t.Errorf("%v, cursor %+v, stale %t", err, s.Cursor(), stale("a"))
		}
		full.Store(false)
		if put(t, s.Keys, "b", "key_b", "good", 3).Stale() {
			t.Error("a copy from after the reset is stale")
		}
		if restarts {
			s = reopen(t, s, c)
		}
		if err := s.Reset(4, "his_2", false); err != nil || !stale("a") || !stale("b") {
			t.Errorf("restarts %t: %v, stale %t and %t", restarts, err, stale("a"), stale("b"))
		}
		s = reopen(t, s, c)
		if at := s.Cursor(); at.Seq != 4 || at.History != "his_2" || !stale("a") || !stale("b") {
			t.Errorf("restarts %t: cursor %+v, stale %t and %t", restarts, at, stale("a"), stale("b"))
		}
		if put(t, s.Keys, "b", "key_b", "new", 5).Stale() {
			t.Error("a copy from after all is stale")
		}
	}
}

// TestFailingUpkeepIsLoggedOnceAMinute has a disk that became read-only, where each sync
// fails: three files would fill another one with three lines a second.
func TestFailingUpkeepIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // in which buntdb's goroutines see that they are closed
		var readOnly atomic.Bool
		dir := t.TempDir()
		disk := durabletest.New(t, dir)
		disk.Before(func(op durabletest.Op) error {
			if readOnly.Load() && op.Kind == durabletest.Sync {
				return syscall.EROFS
			}
			return nil
		})
		log, logged := logtest.New()
		openTest(t, Config{Dir: dir, FS: disk, Log: log})
		readOnly.Store(true)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		readOnly.Store(false)
		const files, minutes = 3, 2
		if n := logged.Count("upkeep of local store failed"); n != files*minutes {
			t.Errorf("%d lines in 90 s, want %d", n, files*minutes)
		}
	})
}
