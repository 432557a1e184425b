package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

// TestOutboxBounds keeps items of the largest id and body that there may be, and
// refuses those of one byte more.
func TestOutboxBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 8<<20, nil)
	largest := Item{strings.Repeat("i", 255), bytes.Repeat([]byte("b"), 1<<20)}
	if err := o.Append(t.Context(), largest); err != nil {
		t.Fatal(err)
	}
	for name, it := range map[string]Item{
		"no id": {}, "an id too long": {strings.Repeat("i", 256), nil}, "a body too long": {"lead_a", make([]byte, 1<<20+1)},
	} {
		if err := o.Append(t.Context(), it); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = openBox(t, path, 8<<20, nil)
	items, err := o.Pending(2, 1, nil)
	if err != nil || len(items) != 1 || items[0].ID != largest.ID || !bytes.Equal(items[0].Body, largest.Body) {
		t.Errorf("after a restart: %d items, %v", len(items), err)
	}
}

// TestOutboxRoom fills the file to the last byte, and has no room for one more.
func TestOutboxRoom(t *testing.T) {
	const room = 64 << 10
	for more, want := range map[int]error{0: nil, 1: store.ErrLimit} {
		o := openBox(t, filepath.Join(t.TempDir(), "outbox"), room, nil)
		if err := o.Append(t.Context(), Item{"a", make([]byte, room/2-15)}); err != nil {
			t.Fatal(err)
		}
		if err := o.Append(t.Context(), Item{"b", make([]byte, room/2-15+more)}); !errors.Is(err, want) {
			t.Errorf("%d bytes beyond the room: %v, want %v", more, err, want)
		}
	}
}

// TestPendingBounds counts records to the byte, their heads and ids included.
func TestPendingBounds(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	add(t, o, "lead_a", "lead_b", "lead_c")
	one := 14 + len("lead_a") + len(bodyOf("lead_a"))
	for size, want := range map[int]int{0: 1, one: 1, 2*one - 1: 1, 2 * one: 2, 3*one - 1: 2, 3 * one: 3} {
		if items, err := o.Pending(9, size, nil); err != nil || len(items) != want {
			t.Errorf("of %d bytes: %d items, %v, want %d", size, len(items), err, want)
		}
	}
	items, err := o.Pending(2, 1<<20, func(id string) bool { return id == "lead_a" })
	if err != nil || len(items) != 2 || items[0].ID != "lead_b" || items[1].ID != "lead_c" {
		t.Errorf("without the first: %v, %v", items, err)
	}
}

// TestItems holds the index of a segment against a list of ids. Hashes are few, so
// that many ids share one.
func TestItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.Uint32Range(1, 1<<8).Draw(t, "hashes")
		var x items
		var all []string // by offset
		var want []int   // offsets of those that wait
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			id := fmt.Sprint("id", rapid.IntRange(0, 99).Draw(t, "id"))
			hash := crc32.ChecksumIEEE([]byte(id)) % hashes * (math.MaxUint32 / hashes)
			i := x.find(hash, func(at int64) bool { return all[at] == id })
			was := slices.IndexFunc(want, func(at int) bool { return all[at] == id })
			switch {
			case i < 0 != (was < 0) || i >= 0 && int(x.at[i]) != want[was]:
				t.Fatalf("%s is at %d, want %d", id, i, was)
			case i >= 0:
				x.remove(i, 3)
				want = slices.Delete(want, was, was+1)
			default:
				x.add(hash, int64(len(all)), 3)
				want = append(want, len(all))
				all = append(all, id)
			}
			if rapid.IntRange(0, 99).Draw(t, "reserve") == 0 {
				x.reserve(400)
			}
			var got []int
			for i := x.first; i < len(x.at); i++ {
				if x.waits(i) {
					got = append(got, int(x.at[i]))
				}
			}
			if !slices.Equal(got, want) || x.waiting != len(want) || x.bytes != int64(3*len(want)) {
				t.Fatalf("%v wait, %d of %d bytes, want %v", got, x.waiting, x.bytes, want)
			}
		}
	})
}

// TestWakeComesOnce: what is added wakes the reader, what is taken away, or was
// there already, does not.
func TestWakeComesOnce(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	woken := func() bool {
		select {
		case <-o.Wake():
			return true
		default:
			return false
		}
	}
	if woken() {
		t.Error("woken though nothing waits")
	}
	add(t, o, "lead_a", "lead_b")
	atRest(t, o) // it wakes after it has answered
	if !woken() || woken() {
		t.Error("two items wake once")
	}
	add(t, o, "lead_a")
	if err := o.Remove(t.Context(), "lead_a"); err != nil {
		t.Fatal(err)
	}
	atRest(t, o)
	if woken() {
		t.Error("woken by what was there, or is removed")
	}
}

// TestSetAsideNamesWhenAndWhy reads the file for the operator.
func TestSetAsideNamesWhenAndWhy(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	path := filepath.Join(t.TempDir(), "outbox")
	o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_a", "lead_b")
	for _, id := range []string{"lead_a", "lead_b"} {
		if err := o.SetAside(t.Context(), Refused{Item{id, bodyOf(id)}, "no " + id}); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"id":"lead_a","at":"2026-01-02T02:04:05Z","reason":"no lead_a","body":{"id":"lead_a"}}` + "\n" +
		`{"id":"lead_b","at":"2026-01-02T02:04:05Z","reason":"no lead_b","body":{"id":"lead_b"}}` + "\n"
	if text, err := os.ReadFile(path + ".rejected"); err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if info, err := os.Stat(path + ".rejected"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read it, or run it", info, err)
	}
	if o.Len() != 0 {
		t.Errorf("%d items wait", o.Len())
	}
}

// TestPendingPassesOverDamage damages a record on the disk while the outbox is
// open: the others are handed over, and it stays for the next start. It is logged once.
func TestPendingPassesOverDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	log, logged := logtest.New()
	o := openBox(t, path, 1<<20, log)
	add(t, o, "lead_a", "lead_b", "lead_c")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := int64(14 + len("lead_a") + len(bodyOf("lead_a")))
	if _, err := f.WriteAt([]byte("X"), 2*one-1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ids := pending(t, o); !slices.Equal(ids, []string{"lead_a", "lead_c"}) {
			t.Errorf("pending %v", ids)
		}
	}
	if o.Len() != 3 {
		t.Errorf("%d items wait", o.Len())
	}
	if n := strings.Count(logged.String(), "can no longer be read"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged)
	}
	add(t, o, "lead_b")
	if ids := pending(t, o); !slices.Equal(ids, []string{"lead_a", "lead_c", "lead_b"}) {
		t.Errorf("pending %v once the damaged item came again", ids)
	}
}

// TestRejectedCannotBeRead has a link that leads nowhere but to itself in the place of
// the file: that is no empty list.
func TestRejectedCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<20, nil)
	rejected := o.cfg.RejectedPath
	if err := os.Symlink(rejected, rejected); err != nil {
		t.Fatal(err)
	}
	var failed error
	for it, err := range o.Rejected() {
		if failed = err; err == nil {
			t.Errorf("item %+v", it)
		}
	}
	if failed == nil {
		t.Error("no error")
	}
}

// TestSetAsideFails: an item that cannot be set aside still waits.
func TestSetAsideFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o, err := Open(Config{Path: path, RejectedPath: filepath.Join(path+".none", "rejected"), MaxBytes: 1 << 20, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_a")
	if err := o.SetAside(t.Context(), Refused{Item{"lead_a", bodyOf("lead_a")}, "why"}); err == nil {
		t.Error("set aside in no folder")
	}
	expect(t, o, "lead_a")
}

// TestSetAsideAtNoTime: an item whose line cannot be written, here for its year, still
// waits.
func TestSetAsideAtNoTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	late := time.Date(10_000, 1, 2, 0, 0, 0, 0, time.UTC)
	o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Now: func() time.Time { return late }})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_a")
	if err := o.SetAside(t.Context(), Refused{Item{"lead_a", bodyOf("lead_a")}, "why"}); err == nil {
		t.Error("set aside in a year that JSON has no time of")
	}
	expect(t, o, "lead_a")
}

// TestLargerThanTheOutbox refuses what has no room though nothing else waits.
func TestLargerThanTheOutbox(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 500, nil)
	add(t, o, "lead_a")
	remove(t, o, "lead_a")
	if err := o.Append(t.Context(), Item{"lead_b", make([]byte, 500)}); !errors.Is(err, store.ErrLimit) {
		t.Errorf("%v", err)
	}
	add(t, o, "lead_c")
	expect(t, o, "lead_c")
}

// TestLargerThanASegment keeps an item that is larger than a segment becomes, in one of
// its own.
func TestLargerThanASegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openSegments(t, path, 1<<20, nil)
	big := Item{"lead_big", make([]byte, 4*recordOf)}
	add(t, o, "lead_a")
	if err := o.Append(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	add(t, o, "lead_b")
	if got := files(t, path); got != "outbox outbox.1 outbox.2" {
		t.Errorf("files %s", got)
	}
	if items, err := o.Pending(9, 1<<20, nil); err != nil || len(items) != 3 || !bytes.Equal(items[1].Body, big.Body) {
		t.Errorf("%d wait, %v", len(items), err)
	}
}

// TestSegmentTooLarge leaves a file as it is whose offsets the index cannot hold.
func TestSegmentTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	write(t, path, nil)
	truncate(t, path, maxSegment+1)
	if o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Now: time.Now}); err == nil {
		t.Errorf("opened, %v", o.Close())
	}
	if info, err := os.Stat(path); err != nil || info.Size() != maxSegment+1 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestUpkeepFails logs each upkeep that fails, and none that the end of the outbox ends.
func TestUpkeepFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logged := logtest.New()
		o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, log)
		failing := errors.New("disk failed")
		add(t, o, "lead_a")
		inWriter(t, o, func() { o.tail.file.f = noTruncate{o.tail.f, failing} }) // which upkeep needs once an item is gone
		time.Sleep(upkeepEvery)
		synctest.Wait()
		remove(t, o, "lead_a")
		for n := range 3 {
			if got := strings.Count(logged.String(), failing.Error()); got != n || logged.Lines() != n {
				t.Errorf("after %d upkeeps: %s", n, logged)
			}
			time.Sleep(upkeepEvery)
			synctest.Wait()
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if logged.Lines() != 3 {
			t.Errorf("once closed: %s", logged)
		}
	})
}

// TestRecordsThatCannotBeRead has each read of a file fail once, and the call for each of
// its records: nobody may take the file for one that ends there.
func TestRecordsThatCannotBeRead(t *testing.T) {
	data := appendRecord(nil, recordLead, "lead_a", bodyOf("lead_a"))
	data = append(data, make([]byte, largest+3*windowBytes)...)
	data[largest/2] = 1
	data = append(data, data[:recordHead]...)
	for good := range 100 {
		calls := 0
		fail := func() error {
			if calls++; calls == good+1 {
				return errDisk
			}
			return nil
		}
		w := window{f: readerAt(func(b []byte, at int64) (int, error) {
			if err := fail(); err != nil {
				return 0, err
			}
			return bytes.NewReader(data).ReadAt(b, at)
		})}
		_, damaged, err := w.records(int64(len(data)), func(int64, record) error { return fail() })
		if calls <= good {
			if err != nil || !damaged || good < 6 {
				t.Errorf("damaged %t, %v after %d calls", damaged, err, calls)
			}
			return
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("call %d failed: %v", good+1, err)
		}
	}
}

type readerAt func(b []byte, at int64) (int, error)

func (r readerAt) ReadAt(b []byte, at int64) (int, error) { return r(b, at) }

// TestSegmentCannotBeOpened has a directory in the place of a segment: the outbox does
// not go on without it.
func TestSegmentCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	if err := os.Mkdir(path+".1", 0o700); err != nil {
		t.Fatal(err)
	}
	if o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Now: time.Now}); err == nil {
		t.Errorf("opened, %v", o.Close())
	}
}

// TestFolderCannotBeRead: an outbox whose files cannot be listed is not taken for an empty
// one.
func TestFolderCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "outbox")
	if o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 20, Now: time.Now}); err == nil {
		t.Errorf("opened, %v", o.Close())
	}
}

// TestEmptiedOnAFullDisk: what is gone gives way on a disk that takes no new file.
func TestEmptiedOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"),
		MaxBytes: 2 * recordOf, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_00", "lead_01")
	inWriter(t, o, func() { o.rest = time.Now().Add(restAfter / 2) }) // tidying has failed
	remove(t, o, "lead_00", "lead_01")
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == durabletest.Make {
			return syscall.ENOSPC
		}
		return nil
	})
	add(t, o, "lead_02")
	expect(t, o, "lead_02")
}

// noTruncate is a file that cannot be cut.
type noTruncate struct {
	durable.File
	err error
}

func (f noTruncate) Truncate(int64) error { return f.err }

// TestHeadIsWhole reads a head that ends with its id, and those that are cut or are
// none.
func TestHeadIsWhole(t *testing.T) {
	head := append(make([]byte, recordHead), "id"...)
	copy(head, recordMark)
	head[13] = 2
	if rec, err := parseHead(head); err != nil || string(rec.id) != "id" {
		t.Errorf("whole: %+v, %v", rec, err)
	}
	unmarked := bytes.Clone(head)
	unmarked[0] ^= 1
	for name, b := range map[string][]byte{"empty": nil, "cut before its id": head[:recordHead], "a byte of its id lacks": head[:recordHead+1], "no mark": unmarked} {
		if rec, err := parseHead(b); err == nil {
			t.Errorf("%s: %+v", name, rec)
		}
	}
}
