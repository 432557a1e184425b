package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

// hurtBox is an outbox on a disk with bad blocks.
type hurtBox struct {
	*Outbox
	disk   *durabletest.BadBlocks
	path   string
	c      Config
	log    *logtest.Buffer
	passed atomic.Int64 // of the clock
}

func newHurtBox(t *testing.T, keepFor time.Duration) *hurtBox {
	t.Helper()
	b := &hurtBox{disk: new(durabletest.BadBlocks), path: filepath.Join(t.TempDir(), "outbox")}
	began := time.Now()
	b.c = Config{Disk: durable.Disk{FS: b.disk}, Path: b.path, RejectedPath: b.path + ".rejected", MaxBytes: 1 << 20,
		KeepFor: keepFor, Now: func() time.Time { return began.Add(time.Duration(b.passed.Load())) }}
	b.open(t)
	return b
}

func (b *hurtBox) open(t *testing.T) {
	t.Helper()
	b.c.Log, b.log = logtest.New()
	var err error
	if b.Outbox, err = Open(b.c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
}

func (b *hurtBox) reopen(t *testing.T) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.open(t)
}

const (
	hurtBody   = 990                       // bytes of the body of each item
	hurtRecord = recordHead + 8 + hurtBody // of its record
)

// fill adds items of which four are in a block.
func (b *hurtBox) fill(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := b.Append(t.Context(), Item{hurtID(i), []byte(strings.Repeat("x", hurtBody))}); err != nil {
			t.Fatal(err)
		}
	}
}

func hurtID(i int) string { return fmt.Sprintf("lead_%03d", i) }

// come returns the numbers of the items that Pending returns with or without an error.
func (b *hurtBox) come(t *testing.T, most int) (numbers map[int]bool, err error) {
	t.Helper()
	items, err := b.Pending(most, 1<<20, nil)
	numbers = map[int]bool{}
	for _, it := range items {
		var n int
		if _, err := fmt.Sscanf(it.ID, "lead_%03d", &n); err != nil || len(it.Body) != hurtBody {
			t.Fatalf("%s with %d bytes", it.ID, len(it.Body))
		}
		numbers[n] = true
	}
	return numbers, err
}

// TestUnreadItemsKeepNoOthersWaiting: the disk does not read one block while the outbox is in
// use. All other items are handed over at once, the error is returned and logged once, and the
// others come when the disk reads them.
func TestUnreadItemsKeepNoOthersWaiting(t *testing.T) {
	b := newHurtBox(t, 0)
	const all = 40
	b.fill(t, 0, all)
	b.disk.Set(b.path, 2)
	got, err := b.come(t, 1000)
	if err == nil || len(got) < all-6 || len(got) >= all || got[9] || !got[0] || !got[all-1] {
		t.Fatalf("%v come, %v", got, err)
	}
	unread := all - len(got)
	if n := b.Unread(); n < int64(unread)*hurtBody || n > int64(unread)*(hurtBody+100) {
		t.Errorf("%d items cannot be read, and %d bytes", unread, n)
	}
	if n := b.log.Lines(); n != unread {
		t.Errorf("%d lines for %d items: %s", n, unread, b.log)
	}
	if id := hurtID(8); got[8] || !strings.Contains(b.log.String(), id) { // of which only the end is in the block
		t.Errorf("%s is not named: %s", id, b.log)
	}
	for range 3 {
		if again, err := b.come(t, 1000); err != nil || len(again) != len(got) {
			t.Errorf("%d items come, %v", len(again), err)
		}
	}
	for i := range got {
		remove(t, b.Outbox, hurtID(i))
	}
	if n := b.Len(); n != unread {
		t.Errorf("%d items wait, want %d", n, unread)
	}
	b.passed.Add(int64(unreadFor))
	if got, err := b.come(t, 1000); err == nil || len(got) > 0 {
		t.Errorf("%v come from a block that cannot be read, %v", got, err)
	}
	if n := b.log.Lines(); n != unread {
		t.Errorf("more lines: %s", b.log)
	}
	b.disk.Set(b.path)
	b.passed.Add(int64(unreadFor))
	if got, err := b.come(t, 1000); err != nil || len(got) != unread || b.Unread() != 0 {
		t.Errorf("%d of %d items come once the disk reads them, %v, %d bytes unread", len(got), unread, err, b.Unread())
	}
}

// TestUnreadItemIsAddedAgain: an item that comes again while the disk does not read the one that
// waits is accepted, kept in another place and handed over from there. What comes a third time is
// not kept again, and both are gone once the item was handed over.
func TestUnreadItemIsAddedAgain(t *testing.T) {
	const all, again = 12, 4 // whose end is in the second block
	for _, damaged := range []bool{false, true} {
		b := newHurtBox(t, 0)
		b.fill(t, 0, all)
		if damaged {
			damage(t, b.path, blockSize)
		} else {
			b.disk.Set(b.path, 1)
		}
		before := b.Len()
		for range 3 {
			b.fill(t, again, again+1)
		}
		if n := b.Len(); n != before+1 {
			t.Errorf("damaged %t: %d items wait after one of %d came again", damaged, n, before)
		}
		got, _ := b.come(t, 1000)
		if !got[again] {
			t.Errorf("damaged %t: %v come, without the one that came again", damaged, got)
		}
		if err := b.Append(t.Context(), Item{hurtID(again), []byte("another")}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("damaged %t: another body: %v", damaged, err)
		}
		remove(t, b.Outbox, hurtID(again))
		if n := b.Len(); n != before-1 {
			t.Errorf("damaged %t: %d items wait once it was handed over, want %d", damaged, n, before-1)
		}
	}
}

// TestOpensWithUnreadBlocks: the disk does not read one block when the outbox is opened. The
// items in all others are handed over; the file is left as it is, whatever is removed and added
// meanwhile, but for the items whose time is over; and what was in the block is handed over after
// a restart at which it is read.
func TestOpensWithUnreadBlocks(t *testing.T) {
	const all, gone = 40, 10
	for _, keepFor := range []time.Duration{0, 48 * time.Hour} {
		for _, block := range []int64{0, 5, 9} { // the last one is cut short
			t.Run(fmt.Sprintf("block %d, kept for %v", block, keepFor), func(t *testing.T) {
				b := newHurtBox(t, keepFor)
				b.fill(t, 0, all)
				for i := range gone {
					remove(t, b.Outbox, hurtID(i))
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				before := read(t, b.path)
				b.disk.Set(b.path, block)
				b.open(t)
				if b.Unread() != blockSize || b.log.Lines() != 1 {
					t.Errorf("%d bytes are not read, log: %s", b.Unread(), b.log)
				}
				got, err := b.come(t, 1000)
				unread := all - gone - len(got)
				if err != nil || unread > 5 || block > 0 && unread == 0 || b.Len() != len(got) {
					t.Errorf("%d of %d items come, %d wait, %v", len(got), all-gone, b.Len(), err)
				}
				for i := range got {
					remove(t, b.Outbox, hurtID(i))
				}
				pass := func(by time.Duration) {
					b.passed.Add(int64(by))
					for range steadyUpkeeps + 2 {
						b.passed.Add(int64(upkeepEvery))
						upkeep(t, b.Outbox)
					}
				}
				if pass(keepFor / 2); keepFor > 0 && !bytes.Equal(read(t, b.path), before) {
					t.Error("the file is another before the time of its items is over")
				}
				pass(100 * time.Hour)
				mustBeErased(t, before, read(t, b.path), func(i int) bool {
					return int64(i)*hurtRecord/blockSize > block || (int64(i+1)*hurtRecord-1)/blockSize < block
				})
				added := all
				for b.Append(t.Context(), Item{hurtID(added), make([]byte, hurtBody)}) == nil { // until it has no room
					added++
				}
				if added < 500 {
					t.Errorf("%d items are added", added-all)
				}
				for i := all; i < added; i++ {
					remove(t, b.Outbox, hurtID(i))
				}
				b.disk.Set(b.path)
				b.reopen(t)
				again, err := b.come(t, 1000)
				if err != nil || len(again) != unread {
					t.Errorf("%d items come once the block is read, want %d, %v", len(again), unread, err)
				}
				for i := range again {
					if got[i] || i < gone {
						t.Errorf("item %d comes again", i)
					}
					remove(t, b.Outbox, hurtID(i))
				}
				if b.Unread() != 0 || b.log.Lines() > 0 {
					t.Errorf("%d bytes are not read, log: %s", b.Unread(), b.log)
				}
			})
		}
	}
}

// read returns what is in a file, whatever its disk reads of it.
func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustBeErased fails unless a file of fill's items is as before but for the bodies of some, which
// are to be gone.
func mustBeErased(t *testing.T, before, after []byte, gone func(i int) bool) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("the file has %d bytes, it had %d", len(after), len(before))
	}
	for i := 0; i*hurtRecord < len(before); i++ {
		was, is := before[i*hurtRecord:][:hurtRecord], after[i*hurtRecord:][:hurtRecord]
		if erased := bytes.IndexByte(is[recordHead+8:], 'x') < 0; erased != gone(i) {
			t.Errorf("item %d is erased: %t", i, erased)
		} else if !erased && !bytes.Equal(was, is) {
			t.Errorf("item %d is another", i)
		}
	}
}

// TestOpensWithUnreadMarks: where the disk does not read which items were handed over, these
// wait once more, and no other is lost.
func TestOpensWithUnreadMarks(t *testing.T) {
	b := newHurtBox(t, 0)
	b.fill(t, 0, 10)
	remove(t, b.Outbox, hurtID(3))
	b.disk.Set(b.path+goneSuffix, 0)
	for range 2 {
		b.reopen(t)
		if got, err := b.come(t, 1000); err != nil || len(got) != 10 {
			t.Errorf("%d items come, %v", len(got), err)
		}
	}
	remove(t, b.Outbox, hurtID(4))
	b.disk.Set(b.path + goneSuffix)
	b.reopen(t)
	if got, err := b.come(t, 1000); err != nil || len(got) != 8 {
		t.Errorf("%d items come once the marks are read, %v", len(got), err)
	}
}

// TestTooManyUnreadBlocks: a disk that reads next to nothing of a file keeps the outbox from
// being opened, before it has tried all of it.
func TestTooManyUnreadBlocks(t *testing.T) {
	b := newHurtBox(t, 0)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var bad []int64
	for i := range int64(maxBadBlocks + 1) {
		bad = append(bad, i)
	}
	for n, opens := range map[int]bool{maxBadBlocks: true, maxBadBlocks + 1: false} {
		write(t, b.path, appendRecord(make([]byte, (maxBadBlocks+1)*blockSize), recordLead, hurtID(1), make([]byte, hurtBody)))
		b.disk.Set(b.path, bad[:n]...)
		o, err := Open(b.c)
		if opens != (err == nil) || !opens && !errors.Is(err, syscall.EIO) {
			t.Errorf("%d blocks: %v", n, err)
		}
		if err != nil {
			continue
		}
		if o.Len() != 1 {
			t.Errorf("%d items wait", o.Len())
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOfferAgainWithUnreadBlocks: items are offered again though the disk does not read some of
// them, those that wait go on to, and the file is left as it is from then on.
func TestOfferAgainWithUnreadBlocks(t *testing.T) {
	const all, gone = 40, 20
	for _, keepFor := range []time.Duration{0, 48 * time.Hour} {
		for _, block := range []int64{2, 7} { // of items that are gone, and of items that wait
			b := newHurtBox(t, keepFor)
			b.fill(t, 0, all)
			for i := range gone {
				remove(t, b.Outbox, hurtID(i))
			}
			b.disk.Set(b.path, block)
			for range 2 {
				offerAgain(t, b.Outbox)
				got, _ := b.come(t, 1000)
				if len(got) >= all || len(got) < all-5 || !got[0] || !got[all-1] {
					t.Errorf("block %d: %v come", block, got)
				}
				if waiting := b.Len(); block == 7 && waiting != all || waiting < len(got) {
					t.Errorf("block %d: %d items wait", block, waiting)
				}
			}
			b.fill(t, all, all+1) // goes elsewhere
			b.disk.Set(b.path)
			b.passed.Add(int64(unreadFor))
			offerAgain(t, b.Outbox)
			if got, err := b.come(t, 1000); err != nil || len(got) != all+1 || b.Unread() != 0 {
				t.Errorf("block %d: %d items come once it is read, %d bytes are not, %v", block, len(got), b.Unread(), err)
			}
		}
	}
}

// TestKeptWithUnreadBlocks: of a segment that was handed over and is kept, what the disk reads
// is offered again, and the rest once it reads that. Of one that it does not read at all, the
// offer fails, to be tried again.
func TestKeptWithUnreadBlocks(t *testing.T) {
	const all = 40
	b := newHurtBox(t, 48*time.Hour)
	b.fill(t, 0, all)
	for i := range all {
		remove(t, b.Outbox, hurtID(i))
	}
	b.passed.Add(int64(2 * time.Hour))
	upkeep(t, b.Outbox)
	atRest(t, b.Outbox)
	if b.Kept() == 0 {
		t.Fatal("nothing is kept")
	}
	var every []int64
	for i := range int64(1 + all*(hurtBody+30)/blockSize) {
		every = append(every, i)
	}
	b.disk.Set(b.path, every...)
	if err := b.OfferAgain(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("offered again from a file that cannot be read: %v", err)
	}
	b.disk.Set(b.path, 3)
	offerAgain(t, b.Outbox)
	if got, err := b.come(t, 1000); err != nil || len(got) >= all || len(got) < all-5 {
		t.Errorf("%d items come, %v", len(got), err)
	}
	b.disk.Set(b.path)
	offerAgain(t, b.Outbox)
	if got, err := b.come(t, 1000); err != nil || len(got) != all {
		t.Errorf("%d items come once all is read, %v", len(got), err)
	}
}

// TestRejectedWithUnreadBlocks: of the items that were set aside, those that the disk reads are
// offered, and the rest once it reads that, after a restart. The file stays until then, without
// those that were removed, which is one line in the log.
func TestRejectedWithUnreadBlocks(t *testing.T) {
	const all = 30
	b := newHurtBox(t, 0)
	path := b.c.RejectedPath
	setAside := func(i int) {
		t.Helper()
		if err := b.SetAside(t.Context(), Refused{Item{hurtID(i), []byte(`"` + strings.Repeat("x", hurtBody) + `"`)}, "why"}); err != nil {
			t.Fatal(err)
		}
	}
	offered := func() (ids []string) {
		t.Helper()
		for it, err := range b.Rejected() {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, it.ID)
		}
		return ids
	}
	for i := range all {
		setAside(i)
	}
	size := int64(len(read(t, path)))
	last := (size - 1) / blockSize
	b.disk.Set(path, 2, last)
	for range 2 {
		got := offered()
		if len(got) >= all || len(got) < all-12 || got[0] != hurtID(0) || slices.Contains(got, hurtID(all-1)) {
			t.Fatalf("%v are offered", got)
		}
		if b.log.Lines() != 1 || !strings.Contains(b.log.String(), path) {
			t.Errorf("log: %s", b.log)
		}
		if n, least := b.Unread(), int64(all-len(got))*hurtBody; n < least || n > 2*least {
			t.Errorf("%d bytes are unread of %d items", n, all-len(got))
		}
	}
	setAside(all) // behind an end that cannot be read
	before := offered()
	if before[len(before)-1] != hurtID(all) {
		t.Errorf("%v are offered, and not the one that was set aside last", before)
	}
	removeAside(t, b.Outbox, before[0], hurtID(all)) // others are left, and then none
	for _, want := range []int{len(before) - 2, 0} {
		if got := offered(); len(got) != want || len(read(t, path)) != int(size) {
			t.Errorf("%d items are offered of a file that cannot be read, want %d, it has %d bytes", len(got), want, len(read(t, path)))
		}
		text := string(read(t, path))
		for i := range all {
			id := hurtID(i)
			gone := slices.Contains(before, id) && (want == 0 || id == before[0])
			if strings.Contains(text, id) == gone {
				t.Errorf("%d left: %s is in the file: %t", want, id, !gone)
			}
		}
		removeAside(t, b.Outbox)
	}
	b.disk.Set(path)
	b.reopen(t)
	if got := offered(); len(got) != all+1-len(before) || b.Unread() != 0 || b.log.Lines() > 0 {
		t.Errorf("%d items are offered once they are read, %d bytes are not, log: %s", len(got), b.Unread(), b.log)
	}
	removeAside(t, b.Outbox)
	if got := files(t, b.path); strings.Contains(got, "rejected") {
		t.Errorf("files %s after all was removed", got)
	}
}

// TestRejectedLineTooLong: a line that is longer than any of SetAside's, as where the end of one
// was damaged, keeps none behind it from being offered.
func TestRejectedLineTooLong(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	write(t, o.cfg.RejectedPath, []byte(strings.Repeat("x", maxLine+1)+"\n"+`{"id":"lead_a","body":{}}`+"\n"))
	var got []string
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.ID)
	}
	if !slices.Equal(got, []string{"lead_a"}) || o.Unread() != maxLine+2 {
		t.Errorf("%v are offered, %d bytes are unread", got, o.Unread())
	}
	removeAside(t, o)
	if text := read(t, o.cfg.RejectedPath); len(text) != maxLine+2 {
		t.Errorf("%d bytes are left of %d that were not offered", len(text), maxLine+2)
	}
}
