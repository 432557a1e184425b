package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
)

// TestGroupTakesAnIDOnce: of one id in one group, the first body counts.
func TestGroupTakesAnIDOnce(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	proceed := hold(t, o)
	var written sync.WaitGroup
	for i, c := range []struct {
		it   Item
		want error
	}{
		{Item{"lead_b", bodyOf("lead_b")}, nil},
		{Item{"lead_a", bodyOf("lead_a")}, nil}, {Item{"lead_a", bodyOf("lead_a")}, nil}, {Item{"lead_a", bodyOf("lead_b")}, store.ErrConflict},
	} {
		written.Go(func() {
			if err := o.Append(t.Context(), c.it); !errors.Is(err, c.want) {
				t.Errorf("item %d: %v, want %v", i, err, c.want)
			}
		})
		awaitQueued(o, i+1)
	}
	proceed()
	written.Wait()
	expect(t, o, "lead_b", "lead_a")
}

// TestGroupTellsIDsOfOneHashApart: in a group as in a segment, a hash only says where to
// look.
func TestGroupTellsIDsOfOneHashApart(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	var g group
	collect := func(id string) {
		j := &job{id: id, record: appendRecord(nil, recordLead, id, bodyOf(id)), hash: 1, done: make(chan error, 1)}
		inWriter(t, o, func() { o.collect(&g, j) })
	}
	collect("lead_a")
	collect("lead_b")
	collect("lead_b")
	if len(g.adds) != 2 || len(g.accepted) != 3 {
		t.Errorf("%d records for %d clients, want 2 for 3", len(g.adds), len(g.accepted))
	}
}

// TestSlowOutboxLetsClientsGo: while the writer is busy for long, clients whose contexts end
// go, whether it has their jobs or not, and also those who came late. The others get their
// answers.
func TestSlowOutboxLetsClientsGo(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	ctx, cancel := context.WithCancel(t.Context())
	begun, busy := make(chan struct{}), make(chan struct{})
	asked := make(chan error)
	go func() {
		asked <- o.ask(ctx, job{task: func() error { close(begun); <-busy; return nil }})
	}()
	<-begun
	var stays sync.WaitGroup
	stays.Go(func() { add(t, o, "lead_stays") })
	awaitQueued(o, 1)
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("a job that the writer does: %v", err)
	}
	for n, id := range []string{"lead_goes", "lead_goes_too"} { // the second comes after a warning
		ctx, cancel := context.WithCancel(t.Context())
		go func() { asked <- o.Append(ctx, Item{id, bodyOf(id)}) }()
		awaitQueued(o, n+2)
		cancel()
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", id, err)
		}
	}
	close(busy)
	stays.Wait()
	add(t, o, "lead_after") // with a job that was warned of
	expect(t, o, "lead_stays", "lead_goes", "lead_goes_too", "lead_after")
}

// hangingDisk is a disk whose syncs of data begin and then wait.
type hangingDisk struct {
	durable.OS
	begun, proceed chan struct{}
}

type hangingFile struct {
	durable.File
	disk *hangingDisk
}

func (d *hangingDisk) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	return hangingFile{f, d}, err
}

func (f hangingFile) SyncData() error {
	f.disk.begun <- struct{}{}
	<-f.disk.proceed
	return f.File.SyncData()
}

// TestEndedContextAddsNothing: who has gone already adds and removes nothing.
func TestEndedContextAddsNothing(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	add(t, o, "lead_a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Append(ctx, Item{"lead_b", nil}); !errors.Is(err, context.Canceled) {
		t.Errorf("added: %v", err)
	}
	if err := o.Remove(ctx, "lead_a"); !errors.Is(err, context.Canceled) {
		t.Errorf("removed: %v", err)
	}
	expect(t, o, "lead_a")
}

// TestHangingDiskHoldsUpNoOther: what needs no disk is answered while one hangs under an item
// that came at the same time.
func TestHangingDiskHoldsUpNoOther(t *testing.T) {
	disk := &hangingDisk{begun: make(chan struct{}, 2), proceed: make(chan struct{}, 2)}
	path := filepath.Join(t.TempDir(), "outbox")
	o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected",
		MaxBytes: 8 << 10, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	disk.proceed <- struct{}{}
	add(t, o, "lead_a")
	<-disk.begun
	letGo := hold(t, o)
	written := make(chan error, 1)
	go func() { written <- o.Append(t.Context(), Item{"lead_b", bodyOf("lead_b")}) }()
	awaitQueued(o, 1)
	waits := []struct {
		it   Item
		want error
		got  chan error
	}{
		{Item{"lead_a", bodyOf("lead_a")}, nil, make(chan error, 1)},
		{Item{"lead_a", []byte("other")}, store.ErrConflict, make(chan error, 1)},
		{Item{"lead_c", make([]byte, 16<<10)}, store.ErrLimit, make(chan error, 1)},
	}
	for i, w := range waits {
		go func() { w.got <- o.Append(t.Context(), w.it) }()
		awaitQueued(o, i+2)
	}
	letGo()
	<-disk.begun
	for _, w := range waits {
		select {
		case err := <-w.got:
			if !errors.Is(err, w.want) {
				t.Errorf("%s: %v, want %v", w.it.ID, err, w.want)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s, to be answered by %v, waits for the disk", w.it.ID, w.want)
		}
	}
	disk.proceed <- struct{}{}
	if err := <-written; err != nil {
		t.Error(err)
	}
	expect(t, o, "lead_a", "lead_b")
}

func TestOutboxGroupsWhoComeTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<24, nil)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("lead_%02d_%02d", w, i)
				if err := o.Append(t.Context(), Item{id, bodyOf(id)}); err != nil {
					t.Error(err)
				}
				if i%2 == 1 {
					if err := o.Remove(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := len(pending(t, o)); got != 64*10 {
		t.Fatalf("%d wait", got)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(pending(t, openBox(t, path, 1<<24, nil))); got != 64*10 {
		t.Fatalf("%d wait after a restart", got)
	}
}
