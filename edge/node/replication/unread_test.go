package replication

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/wire"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
)

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
		h := newHandoff(Config{
			Store: &local.Store{Outbox: box}, Link: testLink{answer: answer}, WriteTimeout: time.Second,
			Counters: Counters{Leads: func(string, int) {}}, Log: log, Now: time.Now,
		})
		disk.Set(path, 0) // what waits longest is in it
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.run(ctx)
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
