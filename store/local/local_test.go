package local

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/local/outbox"
	"partneredge/store/logtest"
)

// clock is a time that only a test moves.
type clock struct{ micro atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micro.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time       { return time.UnixMicro(c.micro.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.micro.Add(d.Microseconds()) }

func openTest(t *testing.T, c Config) *Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func reopen(t *testing.T, s *Store, c Config) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openTest(t, c)
}

func TestStateOutlivesTheProcess(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	name := KeyName([]byte("svc_live_x"))
	if _, err := s.Keys.Put(name, Record{Ref: "key_1", Frame: "frame", Seq: 7, Fetched: at.now()}, s.Keys.Epoch()); err != nil {
		t.Fatal(err)
	}
	if err := s.Advance(9, at.now()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := s.Buckets.Take("key_1", 100); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, err := s.Lockouts.Failure("192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Outbox.Append(context.Background(), outbox.Item{ID: "lead_1", Body: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}

	s = reopen(t, s, c)
	rec, ok := s.Keys.Get(name)
	if !ok || rec.Frame != "frame" || rec.Ref != "key_1" || rec.Seq != 7 || !rec.Fetched.Equal(at.now()) || rec.Stale() {
		t.Errorf("key record: %+v, %v", rec, ok)
	}
	if got, want := s.Cursor(), (Cursor{Seq: 9, CompleteAt: at.now()}); got != want {
		t.Errorf("cursor: %+v, want %+v", got, want)
	}
	if b, _, err := s.Buckets.Take("key_1", 100); err != nil || b.Remaining != 96 {
		t.Errorf("bucket: %+v, %v", b, err)
	}
	if d := s.Lockouts.Lockout("192.0.2.1"); d != 15*time.Minute {
		t.Errorf("lockout: %v", d)
	}
	if items, err := s.Outbox.Pending(10, 1<<20, nil); err != nil || len(items) != 1 || items[0].ID != "lead_1" {
		t.Errorf("outbox: %v, %v", items, err)
	}
}

func TestOneProcessADirectory(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	s := openTest(t, c)
	if other, err := Open(c); err == nil {
		_ = other.Close()
		t.Fatal("a second store opened the directory")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	openTest(t, c)
}

func deletes(i int) bool { return i%4 == 3 }

// row writes n records to a file of its own and returns its bytes, and how many
// there were after each.
func row(t *testing.T, path string, n int) (data []byte, ends []int) {
	t.Helper()
	f := mustFile(t, path)
	for i := range n {
		if deletes(i) {
			if err := f.remove(fmt.Sprintf("k%02d", i-1)); err != nil {
				t.Fatal(err)
			}
		} else if err := f.set(fmt.Sprintf("k%02d", i), seal(fmt.Sprintf("k%02d", i), putText(newValue(0), strings.Repeat("v", i)))); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, ends
}

func mustFile(t *testing.T, path string) *file {
	t.Helper()
	f, err := openFile(durable.Disk{}, path, slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// contents of a file as buntdb holds them.
func contents(t *testing.T, path string, log *slog.Logger) map[string]string {
	t.Helper()
	f, err := openFile(durable.Disk{}, path, log, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	all := map[string]string{}
	if err := f.each("", "", func(k, v string) bool { all[k] = v; return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// The states that the row of changes went through, by how many were made.
func states(t *testing.T, data []byte, ends []int) []map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	log := slog.New(slog.DiscardHandler)
	all := []map[string]string{{}}
	for _, end := range ends {
		write(t, path, data[:end])
		all = append(all, contents(t, path, log))
	}
	return all
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	data, ends := row(t, filepath.Join(dir, "full"), 12)
	want := states(t, data, ends)
	path := filepath.Join(dir, "cut")
	for size := range len(data) + 1 {
		whole := 0
		for whole < len(ends) && ends[whole] <= size {
			whole++
		}
		for _, tail := range []int{0, 4096} { // blocks never written read as zeroes
			write(t, path, append(data[:size:size], make([]byte, tail)...))
			log, text := logtest.New()
			got := contents(t, path, log)
			if !maps.Equal(got, want[whole]) {
				t.Fatalf("cut to %d bytes and %d zeroes: %d records, want %d", size, tail, len(got), len(want[whole]))
			}
			if tail == 0 && text.Lines() != 0 {
				t.Fatalf("cut to %d bytes: %s", size, text)
			}
			// What is written next is there after the next start.
			f := mustFile(t, path)
			if err := f.set("next", seal("next", newValue(0))); err != nil {
				t.Fatal(err)
			}
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
			if got = contents(t, path, log); got["next"] == "" || len(got) != len(want[whole])+1 {
				t.Fatalf("cut to %d bytes and %d zeroes: lost what was written after", size, tail)
			}
			removeGlob(t, path+".damaged-*")
		}
	}
}

// A byte that changes anywhere leaves a state that was, and never a panic; when
// anything whole came after it, the file is set aside with one line.
func TestFileDamagedAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	data, ends := row(t, filepath.Join(dir, "full"), 8)
	want := states(t, data, ends)
	path := filepath.Join(dir, "hurt")
	for i := range data {
		for _, flip := range []byte{0x01, 0x10, 0xff} {
			hurt := bytes.Clone(data)
			hurt[i] ^= flip
			write(t, path, hurt)
			log, text := logtest.New()
			got := contents(t, path, log)
			before := 0
			for ends[before] <= i {
				before++
			}
			aside, _ := filepath.Glob(path + ".damaged-*")
			if text.Lines() != len(aside) || len(aside) > 1 {
				t.Fatalf("byte %d ^ %#x: %d files set aside, log: %s", i, flip, len(aside), text)
			}
			if len(aside) == 1 {
				if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, hurt) {
					t.Fatalf("byte %d: what was set aside is not the file: %v", i, err)
				}
			}
			// The name that a deletion names is not sealed.
			if !maps.Equal(got, want[before]) && !deletes(before) {
				t.Fatalf("byte %d ^ %#x: %v", i, flip, got)
			}
			removeGlob(t, path+".damaged-*")
		}
	}
}

// hurtRow is a row of changes with one byte damaged amid them, and the state before that.
func hurtRow(t *testing.T) (data []byte, want map[string]string) {
	t.Helper()
	data, ends := row(t, filepath.Join(t.TempDir(), "full"), 8)
	data[ends[5]-3] ^= 0xff // in a value, see deletes
	return data, states(t, data[:ends[4]], ends[:5])[5]
}

// TestFileDamagedOnAFailingDisk: whatever fails while a damaged file is set aside, its good
// beginning is there, or comes with the next start, and is known to be no more than that.
func TestFileDamagedOnAFailingDisk(t *testing.T) {
	data, want := hurtRow(t)
	for _, kind := range []durabletest.Kind{durabletest.Link, durabletest.Make, durabletest.Write, durabletest.Sync, durabletest.Rename, durabletest.SyncDir} {
		for n := 1; n <= 3; n++ { // of the kind
			dir := t.TempDir()
			path := filepath.Join(dir, "db")
			write(t, path, data)
			disk := durabletest.New(t, dir)
			disk.Fail(kind, n, syscall.ENOSPC)
			log, text := logtest.New()
			f, err := openFile(durable.Disk{FS: disk}, path, log, time.Now())
			disk.Before(func(durabletest.Op) error { return nil })
			if err != nil {
				if kind != durabletest.SyncDir {
					t.Errorf("%s %d fails: %v", kind, n, err)
				}
				f, err = openFile(durable.Disk{FS: disk}, path, log, time.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
			aside, _ := filepath.Glob(path + ".damaged-*")
			if text.Lines() != 1 || !f.damaged || strings.Contains(text.String(), "aside=") != (len(aside) == 1) {
				t.Errorf("%s %d fails: damaged %t, %q are set aside, log: %s", kind, n, f.damaged, aside, text)
			}
			if err := f.set("next", seal("next", newValue(0))); err != nil {
				t.Fatal(err)
			}
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
			if len(aside) == 1 {
				if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, data) {
					t.Errorf("%s %d fails: what was set aside is not the file: %v", kind, n, err)
				}
			}
			disk.Cut(nil)
			got := contents(t, path, log)
			delete(got, "next")
			if !maps.Equal(got, want) || text.Lines() != 1 {
				t.Errorf("%s %d fails: %d records, want %d", kind, n, len(got), len(want))
			}
		}
	}
}

// TestFileDamagedPowerCut: the power goes while a damaged file is set aside, and its good
// beginning is there.
func TestFileDamagedPowerCut(t *testing.T) {
	data, want := hurtRow(t)
	durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
		write(t, filepath.Join(dir, "db"), data)
		if f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now()); err == nil {
			_ = f.close()
		}
	}, func(when, dir string) {
		if got := contents(t, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler)); !maps.Equal(got, want) {
			t.Errorf("%s: %d records, want %d", when, len(got), len(want))
		}
	})
}

func removeGlob(t *testing.T, pattern string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoreGoesOnWithDamagedFiles(t *testing.T) {
	at := newClock()
	dir := t.TempDir()
	for _, name := range []string{"hot.db", "limits.db", "outbox.log"} {
		write(t, filepath.Join(dir, name), []byte("*1\r\n$0\r\n\r\nthis was never written by a node"))
	}
	log, text := logtest.New()
	s := openTest(t, Config{Dir: dir, Log: log, Now: at.now})
	if text.Lines() != 3 {
		t.Errorf("want one line a file:\n%s", text)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*")); len(aside) != 3 {
		t.Errorf("set aside: %v", aside)
	}
	if _, _, err := s.Buckets.Take("key", 100); err != nil {
		t.Error(err)
	}
	if err := s.Outbox.Append(t.Context(), outbox.Item{ID: "lead_1", Body: []byte(`{}`)}); err != nil {
		t.Error(err)
	}
	if err := s.Advance(1, at.now()); err != nil {
		t.Error(err)
	}
}

func FuzzMend(f *testing.F) {
	value := seal("k", putText(newValue(0), "value"))
	set := fmt.Sprintf("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value)
	f.Add([]byte(set))
	f.Add([]byte(set + "*2\r\n$3\r\ndel\r\n$1\r\nk\r\n"))
	f.Add([]byte("*1\r\n$0\r\n\r\n"))
	f.Add([]byte("*3\r\n$999999999\r\nset\r\n"))
	f.Add([]byte("\x00\x00" + set))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "db")
		write(t, path, data)
		db, err := openFile(durable.Disk{}, path, slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.set("k", value); err != nil {
			t.Fatal(err)
		}
		if err := db.close(); err != nil {
			t.Fatal(err)
		}
		log, text := logtest.New()
		if contents(t, path, log)["k"] != value || text.Lines() > 0 {
			t.Fatalf("what was written after mending is gone: %s", text)
		}
	})
}
