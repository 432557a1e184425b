package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
)

// TestRoomOfTheDisk: an outbox takes no more than its disk has, less what it
// leaves for other files, and takes items again when the disk has room.
func TestRoomOfTheDisk(t *testing.T) {
	const total, reserve = 16 << 20, 1 << 20
	var left atomic.Int64
	left.Store(8 << 20)
	dir := t.TempDir()
	o, err := Open(Config{
		Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"), MaxBytes: 1 << 30,
		Free: func(asked string) (int64, int64, error) {
			if asked != dir {
				t.Errorf("asked for the disk of %s", asked)
			}
			return left.Load(), total, nil
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if room := o.Room(); room != 8<<20-reserve {
		t.Errorf("room for %d bytes, want %d", room, 8<<20-reserve)
	}
	body := make([]byte, 100<<10)
	if err := o.Append(t.Context(), Item{"first", body}); err != nil {
		t.Fatal(err)
	}
	left.Store(reserve)
	taken := 0
	for ; taken < 100; taken++ {
		if err = o.Append(t.Context(), Item{fmt.Sprint(taken), body}); err != nil {
			break
		}
	}
	// What was written ahead of the first item is there to be used.
	if !errors.Is(err, store.ErrLimit) || taken != preallocate/len(body) {
		t.Errorf("%d items taken on a full disk, then %v", taken, err)
	}
	left.Store(reserve - 1)
	if room := o.Room(); room >= int64(len(body)) {
		t.Errorf("room for %d bytes on a full disk", room)
	}
	// Nor does the disk have to have room for what goes there.
	var ahead int64
	inWriter(t, o, func() { ahead = o.ahead() })
	left.Store(reserve + int64(len(body)))
	if err := o.Append(t.Context(), Item{"partly", make([]byte, ahead+int64(len(body)/2))}); err != nil {
		t.Errorf("%d bytes ahead: %v", ahead, err)
	}
	left.Store(reserve + preallocate)
	if err := o.Append(t.Context(), Item{"later", body}); err != nil {
		t.Error(err)
	}
	if n := o.Len(); n != taken+3 {
		t.Errorf("%d wait, want %d", n, taken+3)
	}
}

// TestRoomIsAskedAgain: what gives way makes room on the disk for what comes with it.
func TestRoomIsAskedAgain(t *testing.T) {
	var o *Outbox
	dir := t.TempDir()
	o, err := Open(Config{
		Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"), MaxBytes: 1 << 20, KeepFor: time.Hour,
		Free: func(string) (int64, int64, error) {
			if o != nil && len(o.kept) > 0 { // the writer asks
				return 0, 1 << 20, nil
			}
			return 1 << 20, 1 << 20, nil
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add(t, o, "lead_a")
	remove(t, o, "lead_a")
	inWriter(t, o, func() {
		o.kept = append(o.kept, kept{path: filepath.Join(dir, "none"), size: 1})
		o.freeKnown = false
		if !o.makeRoom(recordOf + o.ahead()) {
			t.Error("no room on a disk of which what is kept took all")
		}
	})
}

// TestReserve leaves a sixteenth of a disk to others, and 64 MiB of a large one.
func TestReserve(t *testing.T) {
	for asked, want := range map[[2]int64]int64{
		{1600, 1600}: 1500, {101, 1600}: 1, {100, 1600}: 0, {99, 1600}: 0, {0, 1600}: 0,
		{1 << 30, 1 << 30}: 1<<30 - 64<<20, {1 << 40, 1 << 40}: 1<<40 - 64<<20,
	} {
		c := Config{Path: "outbox", MaxBytes: 7, Free: func(string) (int64, int64, error) { return asked[0], asked[1], nil }}
		if got := c.free(); got != want {
			t.Errorf("%d bytes of %d: %d, want %d", asked[0], asked[1], got, want)
		}
	}
}

// TestRoomIsAskedOnceAGroup: items that are written together ask the disk once.
func TestRoomIsAskedOnceAGroup(t *testing.T) {
	var asked atomic.Int64
	dir := t.TempDir()
	o, err := Open(Config{
		Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"), MaxBytes: 1 << 20,
		Free: func(string) (int64, int64, error) { asked.Add(1); return 1 << 20, 1 << 20, nil },
		Log:  slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	const items = 20
	var written sync.WaitGroup
	proceed := hold(t, o)
	for i := range items {
		written.Go(func() {
			if err := o.Append(t.Context(), Item{fmt.Sprint(i), nil}); err != nil {
				t.Error(err)
			}
		})
	}
	awaitQueued(o, items)
	asked.Store(0)
	proceed()
	written.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d items of a group asked the disk %d times, want once", items, n)
	}
}

// hold has the writer do nothing until proceed is called: what comes meanwhile is one
// group.
func hold(t *testing.T, o *Outbox) (proceed func()) {
	t.Helper()
	var holding sync.WaitGroup
	begun, busy := make(chan struct{}), make(chan struct{})
	holding.Go(func() {
		_ = o.ask(t.Context(), job{task: func() error { close(begun); <-busy; return nil }})
	})
	<-begun
	return func() { close(busy); holding.Wait() }
}

// awaitQueued returns when n jobs wait for the writer.
func awaitQueued(o *Outbox, n int) {
	for waiting := 0; waiting < n; runtime.Gosched() {
		o.queue.mu.Lock()
		waiting = len(o.queue.jobs)
		o.queue.mu.Unlock()
	}
}

// A disk that cannot be asked sets no bound.
func TestRoomOfAnUnknownDisk(t *testing.T) {
	dir := t.TempDir()
	o, err := Open(Config{
		Path: filepath.Join(dir, "outbox"), RejectedPath: filepath.Join(dir, "rejected"), MaxBytes: 1 << 20,
		Free: func(string) (int64, int64, error) { return 0, 0, errors.ErrUnsupported },
		Log:  slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if room := o.Room(); room != 1<<20 {
		t.Errorf("room for %d bytes", room)
	}
	if err := o.Append(t.Context(), Item{"a", nil}); err != nil {
		t.Error(err)
	}
}
