package leads

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
)

// TestLeadsGoOverASlowLink: a link that carries one lead within the timeout takes all to the
// origin, those that wait and those that were set aside.
func TestLeadsGoOverASlowLink(t *testing.T) {
	const timeout = 8 * time.Second
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		waiting, aside := rapid.IntRange(0, 40).Draw(rt, "waiting"), rapid.IntRange(1, 40).Draw(rt, "set aside")
		slow := linktest.DrawSlow(rt, timeout)
		synctest.Test(t, func(t *testing.T) {
			in := filepath.Join(dir, fmt.Sprint("leads-", run))
			box, err := outbox.Open(outbox.Config{Path: in, RejectedPath: in + ".rejected", MaxBytes: 1 << 30, Log: log, Now: time.Now})
			if err != nil {
				rt.Fatal(err)
			}
			defer box.Close()
			for i := range waiting + aside {
				id := fmt.Sprint("lead_", i)
				lead := outbox.Item{ID: id, Body: []byte(`{"id":"` + id + `","key_hash":""}`)}
				if i < waiting {
					err = box.Append(t.Context(), lead)
				} else {
					err = box.SetAside(t.Context(), outbox.Refused{Item: lead, Reason: "no room"})
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			committed, all := map[string]bool{}, make(chan struct{})
			answer := func(ctx context.Context, req, reply wire.Message) error {
				leads, answer := req.(*wire.LeadsRequest), reply.(*wire.LeadsReply)
				if err := slow.Carry(ctx, len(leads.Leads)+len(leads.Raw)); err != nil {
					return err
				}
				for _, body := range leads.Leads {
					answer.Committed = append(answer.Committed, idOf(body))
				}
				for _, raw := range leads.Raw {
					answer.Committed = append(answer.Committed, raw.ID)
				}
				before := len(committed)
				for _, id := range answer.Committed {
					committed[id] = true
				}
				if before < waiting+aside && len(committed) == waiting+aside {
					close(all)
				}
				return nil
			}
			h := NewHandoff(Config{
				Store: &local.Store{Outbox: box}, Link: linktest.Link{Answer: answer}, WriteTimeout: timeout,
				Count: func(string, int) {}, Log: log, Now: time.Now,
			})
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.Run(ctx)
			}()
			select {
			case <-all:
			case <-ctx.Done():
				rt.Errorf("%d leads of %d that waited and %d that were set aside after a day", len(committed), waiting, aside)
			}
			cancel()
			<-ended
		})
	})
}
