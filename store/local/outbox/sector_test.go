package outbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

const hurtBody = 990 // bytes of the body of each item

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
