package leads

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
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

// TestUnreadLeadsKeepNoOthersWaiting: all leads but those of a block that the disk does not
// read are handed over at once, and these once it does, though no lead comes meanwhile.
func TestUnreadLeadsKeepNoOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 50
		disk, path := new(durabletest.BadBlocks), filepath.Join(t.TempDir(), "outbox")
		log := slog.New(slog.DiscardHandler)
		box, err := outbox.Open(outbox.Config{
			Disk: durable.Disk{FS: disk}, Path: path, RejectedPath: path + ".rejected", MaxBytes: 1 << 30, Log: log, Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		for i := range all {
			id := fmt.Sprint("lead_", i)
			body := `{"id":"` + id + `","key_hash":"` + strings.Repeat("x", 1000) + `"}`
			if err := box.Append(t.Context(), outbox.Item{ID: id, Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		committed := 0
		answer := func(_ context.Context, req, reply wire.Message) error {
			for _, body := range req.(*wire.LeadsRequest).Leads {
				reply.(*wire.LeadsReply).Committed = append(reply.(*wire.LeadsReply).Committed, idOf(body))
				committed++
			}
			return nil
		}
		h := NewHandoff(Config{
			Store: &local.Store{Outbox: box}, Link: linktest.Link{Answer: answer}, WriteTimeout: time.Second,
			Count: func(string, int) {}, Log: log, Now: time.Now,
		})
		disk.Set(path, 0) // what waits longest is in it
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.Run(ctx)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := box.Len(); n == 0 || n > 5 || committed != all-n {
			t.Errorf("%d of %d leads wait, the others were handed over %d times", n, all, committed)
		}
		disk.Set(path)
		time.Sleep(2 * deferFor)
		synctest.Wait()
		if n := box.Len(); n > 0 || committed != all {
			t.Errorf("%d of %d leads wait once the disk reads them, %d were handed over", n, all, committed)
		}
		cancel()
		<-ended
	})
}
