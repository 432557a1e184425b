package leads

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
	"partneredge/wasm/abi"
)

// TestUnreadLeadIsSentAgain: a lead that comes again with its Idempotency-Key is accepted under
// the same id while the disk does not read the one that waits, at a node that has forgotten the
// request.
func TestUnreadLeadIsSentAgain(t *testing.T) {
	disk, dir := new(durabletest.BadBlocks), filepath.Join(t.TempDir(), "state")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // far from midnight
	var before abi.Kept
	for try := range 2 {
		state, err := local.Open(local.Config{Dir: dir, FS: disk, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		o := NewOutbox(Config{Store: state, KeyHash: idAsHash, Now: func() time.Time { return now }, Count: func(string, int) {}})
		if try == 1 {
			disk.Set("outbox.log", 1) // in which the lead ends
		}
		lead := abi.Lead{ID: "lead_1", FirstName: "x", Email: "x@example.com", ConsentStatus: "none", ConsentText: strings.Repeat("x", 4000), Created: 2}
		once := abi.Once{Key: "a", Digest: "d", Lead: lead}
		kept, err := o.LeadOnce(t.Context(), abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive}, &once)
		if err != nil || kept.Outcome != abi.New || try == 1 && kept.ID != before.ID {
			t.Errorf("the lead comes for the time %d: %+v, %v, before %+v", try+1, kept, err, before)
		}
		before = kept
		if err := state.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "limits.db")); err != nil {
			t.Fatal(err)
		}
	}
}

// handed is an outbox whose leads are handed over to an origin that takes all but the rejected,
// in the bubble of a test.
type handed struct {
	*outbox.Outbox
	path      string
	committed map[string]int // how often the origin was given each lead
	rejected  string         // a lead that the origin does not take; "all": it takes none
	counted   map[string]int // by outcome
	h         *Handoff

	asked      func()   // called with each request, if not nil
	unanswered string   // a lead that was set aside at which the link fails
	offered    []string // leads that were set aside, as the origin is offered them
}

func newHanded(t *testing.T, fs durable.FS, path string) *handed {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	box, err := outbox.Open(outbox.Config{
		Disk: durable.Disk{FS: fs}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 30, Log: log, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	b := &handed{Outbox: box, path: path, committed: map[string]int{}, counted: map[string]int{}}
	answer := func(_ context.Context, req, reply wire.Message) error {
		if b.asked != nil {
			b.asked()
		}
		for _, body := range req.(*wire.LeadsRequest).Leads {
			if id := idOf(body); b.rejected == "all" || b.rejected == id {
				if reply.(*wire.LeadsReply).Rejected == nil {
					reply.(*wire.LeadsReply).Rejected = map[string]string{}
				}
				reply.(*wire.LeadsReply).Rejected[id] = "too new"
				continue
			}
			reply.(*wire.LeadsReply).Committed = append(reply.(*wire.LeadsReply).Committed, idOf(body))
			b.committed[idOf(body)]++
		}
		for _, raw := range req.(*wire.LeadsRequest).Raw {
			if raw.ID == b.unanswered {
				return host.ErrUnavailable
			}
			b.offered = append(b.offered, raw.ID)
			if b.rejected != "all" && raw.ID != b.rejected {
				reply.(*wire.LeadsReply).Committed = append(reply.(*wire.LeadsReply).Committed, raw.ID)
			}
		}
		return nil
	}
	count := func(outcome string, n int) { b.counted[outcome] += n }
	b.h = NewHandoff(Config{
		Store: &local.Store{Outbox: box}, Link: linktest.Link{Answer: answer}, WriteTimeout: time.Second, Count: count, Log: log, Now: time.Now,
	})
	return b
}

// add adds leads of about 1 kB, many at a time.
func (b *handed) add(t *testing.T, from, to int) {
	t.Helper()
	var adding sync.WaitGroup
	for first := range 50 {
		adding.Go(func() {
			for i := from + first; i < to; i += 50 {
				id := fmt.Sprint("lead_", i)
				body := `{"id":"` + id + `","key_hash":"` + strings.Repeat("x", 1000) + `"}`
				if err := b.Append(t.Context(), outbox.Item{ID: id, Body: []byte(body)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adding.Wait()
}

// run hands leads over until the test ends.
func (b *handed) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// pass has a time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestUnreadLeadsKeepNoOthersWaiting: all leads but those of a block that the disk does not
// read are handed over at once, and these once it does, though no lead comes meanwhile.
func TestUnreadLeadsKeepNoOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 50
		disk := new(durabletest.BadBlocks)
		b := newHanded(t, disk, filepath.Join(t.TempDir(), "outbox"))
		b.add(t, 0, all)
		disk.Set(b.path, 0) // what waits longest is in it
		b.run(t)
		pass(time.Second)
		if n := b.Len(); n == 0 || n > 5 || len(b.committed) != all-n {
			t.Errorf("%d of %d leads wait, %d were handed over", n, all, len(b.committed))
		}
		disk.Set(b.path)
		pass(2 * deferFor)
		if n := b.Len(); n > 0 || b.counted["committed"] != all {
			t.Errorf("%d of %d leads wait once the disk reads them, %v", n, all, b.counted)
		}
	})
}

// TestManyUnreadLeadsKeepNoOthersWaiting: of leads that lie behind a megabyte that the disk does
// not read, and of those that come afterwards, none waits for long.
func TestManyUnreadLeadsKeepNoOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, bad = 3000, 256
		disk := new(durabletest.BadBlocks)
		b := newHanded(t, disk, filepath.Join(t.TempDir(), "outbox"))
		b.add(t, 0, all)
		var blocks []int64
		for i := range int64(bad) {
			blocks = append(blocks, i)
		}
		disk.Set(b.path, blocks...)
		b.run(t)
		pass(10 * time.Second)
		const most = bad*durabletest.BlockSize/1000 + 1 // leads that may lie there
		if n := b.Len(); n > most || len(b.committed) != all-n {
			t.Errorf("%d of %d leads wait, %d were handed over", n, all, len(b.committed))
		}
		pass(10 * time.Minute)
		waiting := b.Len()
		b.add(t, all, all+1)
		pass(time.Minute)
		if n := b.Len(); n != waiting || b.committed[fmt.Sprint("lead_", all)] != 1 {
			t.Errorf("%d leads wait with one that came afterwards, %d before", n, waiting)
		}
		disk.Set(b.path)
		pass(2 * deferFor)
		if n := b.Len(); n > 0 || b.counted["committed"] != all+1 {
			t.Errorf("%d of %d leads wait once the disk reads them, %v", n, all, b.counted)
		}
	})
}

// TestLeadsLeaveADiskThatTakesNoMarks: leads are handed over or set aside, and counted, as fast
// where that they are gone cannot be noted.
func TestLeadsLeaveADiskThatTakesNoMarks(t *testing.T) {
	for files, rejected := range map[string]int{"gone": 1, "gone rejected": 0} {
		t.Run(files, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const all = 4000
				dir := t.TempDir()
				disk := durabletest.New(t, dir)
				disk.Before(func(op durabletest.Op) error {
					if (op.Kind == durabletest.Write || op.Kind == durabletest.Make) && slices.Contains(strings.Fields(files), strings.TrimPrefix(filepath.Ext(op.Path), ".")) {
						return syscall.ENOSPC
					}
					return nil
				})
				b := newHanded(t, disk, filepath.Join(dir, "outbox"))
				b.rejected = "lead_0"
				b.add(t, 0, all)
				b.run(t)
				pass(5 * time.Second)
				if n := b.Len(); n != 1-rejected || len(b.committed) != all-1 || b.counted["committed"] != all-1 || b.counted["rejected"] != rejected {
					t.Errorf("%d of %d leads wait, %d were handed over, counted are %v", n, all, len(b.committed), b.counted)
				}
			})
		})
	}
}
