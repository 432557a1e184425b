package local

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
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
		rec, repeated, err := s.Idempotency.Do(t.Context(), "order 7", "", func() (IdempotencyRecord, error) {
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

// rationed returns a disk that takes as many more writes to the file of this name as left
// says.
func rationed(t *testing.T, dir, name string) (disk *durabletest.Disk, left *atomic.Int64) {
	left = new(atomic.Int64)
	left.Store(math.MaxInt64)
	disk = durabletest.New(t, dir)
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == durabletest.Write && op.Path == filepath.Join(dir, name) && left.Add(-1) < 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	return disk, left
}

// killed returns what a store would find had its process been killed now.
func killed(t *testing.T, c Config) *Store {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(c.Dir)); err != nil {
		t.Fatal(err)
	}
	c.Dir, c.FS = left, nil
	return openTest(t, c)
}

// TestRecordsGoOnInMemory: on a full disk records are put, changed, evicted and dropped as
// ever, and the cursor moves. Once the disk takes changes it gets the cursor last: whoever
// is killed meanwhile finds a cursor whose every change is there.
func TestRecordsGoOnInMemory(t *testing.T) {
	revoke := func(string) string { return "revoked" }
	for writes := 0; ; writes++ { // that the disk takes of the catching up
		dir := t.TempDir()
		disk, left := rationed(t, dir, "hot.db")
		log, logged := logtest.New()
		c := Config{Dir: dir, FS: disk, Log: log}
		s := openTest(t, c)
		for _, name := range []string{"a", "b", "c"} {
			put(t, s.Keys, name, "key_"+name, "good", 5)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(s.Advance(5, time.Now()))
		left.Store(0)
		change(t, s.Keys, "key_a", 6, revoke)
		must(s.Keys.Drop("b"))
		for _, name := range []string{"d", "e"} {
			if rec := put(t, s.Views, name, name, strings.Repeat(name, catchUpBytes), 7); rec.Stale() {
				t.Error("a record is stale that the disk does not take")
			}
		}
		complete := time.Now()
		must(s.Advance(7, complete))
		if at := s.Cursor(); at.Seq != 7 || !at.CompleteAt.Equal(complete) || !s.InMemory() {
			t.Errorf("the cursor on a full disk: %+v, in memory %t", at, s.InMemory())
		}
		rec, _ := s.Keys.Get("a")
		if rec.Frame != "revoked" || s.Keys.Len() != 2 || s.Views.Len() != 2 {
			t.Errorf("on a full disk: %q, %d keys, %d views", rec.Frame, s.Keys.Len(), s.Views.Len())
		}
		if n := logged.Count("going on in memory"); n != 1 {
			t.Errorf("said %d times:\n%s", n, logged)
		}

		left.Store(int64(writes))
		s.hot.catchUp()
		after := killed(t, c)
		switch seq := after.Cursor().Seq; {
		case seq == 7:
			if rec, _ := after.Keys.Get("a"); rec.Frame != "revoked" || after.Keys.Len() != 2 || after.Views.Len() != 2 {
				t.Errorf("after %d writes the cursor is there, and %q, %d keys, %d views", writes, rec.Frame, after.Keys.Len(), after.Views.Len())
			}
			if s.hot.isBehind() {
				t.Error("in memory although the disk has everything")
			}
			if writes < 4 {
				t.Errorf("the disk had everything after %d writes", writes)
			}
			return
		case seq != 5:
			t.Errorf("after %d writes the cursor is at %d", writes, seq)
		}
		change(t, after.Keys, "key_a", 6, revoke) // applied again
		if rec, _ := after.Keys.Get("a"); rec.Frame != "revoked" {
			t.Errorf("after %d writes and the change: %q", writes, rec.Frame)
		}
		must(after.Close())
		must(s.Close())
	}
}

// TestShrinkWhileTheDiskFills: a file that is written anew while the disk takes no changes
// has some of them and not others. It does not take the log's place.
func TestShrinkWhileTheDiskFills(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	disk := durabletest.New(t, dir)
	f, err := openFile(durable.Disk{FS: disk}, path, slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.inMemory, f.last = true, "cursor"
	set := func(key string, n int) {
		t.Helper()
		if err := f.set(key, value(key, n)); err != nil {
			t.Fatal(err)
		}
	}
	set("cursor", 1)
	set("k", 1)
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == durabletest.Write && op.Path == path {
			return syscall.ENOSPC
		}
		return nil
	})
	set("k", 2)
	set("cursor", 2)
	old := f.logs[0]
	next, err := f.rewrite(old, old.size)
	if !errors.Is(err, errBehind) {
		t.Errorf("a log that lacks changes was written anew: %v", err)
	}
	if err := f.keepOne(old, next, err); err != nil || f.logs[0] != old {
		t.Errorf("%v; the log is the old one %t", err, f.logs[0] == old)
	}
}

// TestEvictionThatFails: a record that cannot be removed from the file is still held, so
// that a change finds it. Else it would be current again after a restart.
func TestEvictionThatFails(t *testing.T) {
	dir := t.TempDir()
	disk, left := rationed(t, dir, "hot.db")
	c := Config{Dir: dir, FS: disk, KeyBytes: 3 * (overhead + 100)}
	s := openTest(t, c)
	for _, name := range []string{"a", "b"} {
		put(t, s.Keys, name, "key_"+name, "good", 5)
	}
	s.hot.inMemory = false
	left.Store(1) // for the record, and not for the end of another
	if _, err := s.Keys.Put("c", Record{Ref: "key_c", Frame: strings.Repeat("c", 200), Seq: 5}, s.Keys.Epoch()); err == nil {
		t.Fatal("nothing was evicted")
	}
	left.Store(math.MaxInt64)
	if !change(t, s.Keys, "key_a", 6, func(string) string { return "revoked" }) {
		t.Error("a record that is in the file is not held")
	}
	s = reopen(t, s, c)
	if rec, held := s.Keys.Get("a"); held && rec.Frame != "revoked" {
		t.Errorf("after a restart: %q", rec.Frame)
	}
}

// TestEvictionAtAStart: a store that may hold less than its file has opens on a full disk.
func TestEvictionAtAStart(t *testing.T) {
	dir := t.TempDir()
	disk, full := fillable(t, dir)
	c := Config{Dir: dir, FS: disk}
	s := openTest(t, c)
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, s.Keys, name, "key_"+name, "good", 5)
	}
	full.Store(true)
	c.KeyBytes = 3 * (overhead + 100)
	s = reopen(t, s, c)
	if s.Keys.Len() != 3 || !s.InMemory() {
		t.Errorf("%d records, in memory %t", s.Keys.Len(), s.InMemory())
	}
	full.Store(false)
	s.hot.catchUp()
	if after := killed(t, c); after.Keys.Len() != 3 {
		t.Errorf("%d records in the file", after.Keys.Len())
	}
}

// TestResetOnAFullDisk: records are stale although the cursor cannot be stored, and all
// are after a restart that finds some from after the reset and not the cursor.
func TestResetOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, left := rationed(t, dir, "hot.db")
	c := Config{Dir: dir, FS: disk}
	s := openTest(t, c)
	put(t, s.Keys, "a", "key_a", "good", 5)
	if err := s.Advance(5, time.Now()); err != nil {
		t.Fatal(err)
	}
	left.Store(0)
	if err := s.Reset(3, "his_2", false); err != nil {
		t.Fatal(err)
	}
	if rec, _ := s.Keys.Get("a"); s.Cursor().Seq != 3 || s.Cursor().History != "his_2" || !rec.Stale() {
		t.Errorf("cursor %+v, stale %t", s.Cursor(), rec.Stale())
	}
	if put(t, s.Keys, "b", "key_b", "good", 3).Stale() {
		t.Error("a copy from after the reset is stale")
	}
	left.Store(1) // for the copy
	s.hot.catchUp()
	after := killed(t, c)
	for _, name := range []string{"a", "b"} {
		if rec, held := after.Keys.Get(name); !held || !rec.Stale() {
			t.Errorf("killed before the cursor is stored: %s is held %t, stale %t", name, held, rec.Stale())
		}
	}
	if at := after.Cursor(); at.Seq != 5 || at.History != "" {
		t.Errorf("killed before the cursor is stored: it is %+v", at)
	}
	left.Store(math.MaxInt64)
	s.hot.catchUp()
	after = killed(t, c)
	if rec, _ := after.Keys.Get("b"); rec.Stale() || after.Cursor().Seq != 3 || after.Cursor().History != "his_2" {
		t.Errorf("stale %t, cursor %+v", rec.Stale(), after.Cursor())
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

// TestShrinkRests: a file that cannot be rewritten, since the disk has too little room or
// fails, is tried again after rests that grow.
func TestShrinkRests(t *testing.T) {
	for name, test := range map[string]struct{ hasRoom, full bool }{
		"too little room":    {hasRoom: false, full: false},
		"the disk is full":   {hasRoom: true, full: true},
		"nothing is written": {hasRoom: false, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(2 * time.Second) }) // in which buntdb's goroutines see that they are closed
				dir := t.TempDir()
				disk, full := fillable(t, dir)
				var roomy atomic.Bool
				free := func(string) (free, total int64, err error) {
					if roomy.Load() {
						return 1 << 30, 1 << 40, nil
					}
					return 32<<20 - 1, 1 << 40, nil // half of what the outbox leaves, almost
				}
				log, logged := logtest.New()
				s := openTest(t, Config{Dir: dir, FS: disk, Log: log, Free: free})
				put(t, s.Keys, "a", "key_a", "good", 5)
				roomy.Store(test.hasRoom)
				full.Store(test.full)
				s.hot.mu.Lock()
				s.hot.logs[0].unsure = true // to be written anew
				s.hot.mu.Unlock()
				before := disk.Count(durabletest.Make)
				const tries = 4 // after 1, 61, 181 and 421 seconds
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := logged.Count("local file cannot be rewritten"); n != tries {
					t.Errorf("%d tries in 10 minutes, want %d", n, tries)
				}
				if made := disk.Count(durabletest.Make) - before; made != 0 && !test.hasRoom {
					t.Errorf("begun %d times without room", made)
				}
				roomy.Store(true)
				full.Store(false)
				renamed := disk.Count(durabletest.Rename)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := disk.Count(durabletest.Rename) - renamed; n != 1 {
					t.Errorf("written anew %d times once there was room", n)
				}
			})
		})
	}
}

// TestShrinkLeavesRoom: a shrink that finds more in use than it knew of ends before the
// changes that go on meanwhile find no room.
func TestShrinkLeavesRoom(t *testing.T) {
	f := mustFile(t, filepath.Join(t.TempDir(), "db"))
	defer f.close()
	const total, leave, size = 64 << 20, 2 << 20, 10 << 20
	least := int64(total)
	f.free = func(string) (int64, int64, error) {
		free := int64(size)
		if info, err := os.Stat(f.path + shrinking); err == nil {
			free -= info.Size()
		}
		least = min(least, free)
		return free, total, nil
	}
	for i := range 12 {
		key := fmt.Sprint("k", i)
		if err := f.set(key, seal(key, putText(newValue(1<<20), strings.Repeat("v", 1<<20)))); err != nil {
			t.Fatal(err)
		}
	}
	f.shrinkFrom = 0
	if err := f.shrink(); !errors.Is(err, errNoRoom) {
		t.Errorf("a file of 12 MiB was written anew in 10: %v", err)
	}
	if least < leave || least == size {
		t.Errorf("%d bytes were left, want %d at least", least, leave)
	}
	if _, err := os.Stat(f.path + shrinking); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was written is still there: %v", err)
	}
}
