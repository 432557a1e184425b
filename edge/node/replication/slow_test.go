package replication

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// TestChangesComeOverASlowLink: a link that carries one change within the timeout brings all
// that were missed.
func TestChangesComeOverASlowLink(t *testing.T) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	log := slog.New(slog.DiscardHandler)
	rapid.Check(t, func(rt *rapid.T) {
		const first = 10
		if err := held.Reset(first, "his_1", false); err != nil {
			rt.Fatal(err)
		}
		latest := int64(first + rapid.IntRange(1, 300).Draw(rt, "missed"))
		slow := linktest.DrawSlow(rt, answerTimeout)
		synctest.Test(t, func(t *testing.T) {
			answer := func(ctx context.Context, req, reply wire.Message) error {
				asked, changes := req.(*wire.ChangesRequest), reply.(*wire.ChangesReply)
				*changes = wire.ChangesReply{History: "his_1", Latest: latest}
				for seq := asked.Since + 1; seq <= min(latest, asked.Since+int64(asked.Limit)); seq++ {
					changes.Changes = append(changes.Changes, store.Change{Seq: seq, Kind: store.ChangeKey, Ref: "key_1"})
				}
				return slow.Carry(ctx, len(changes.Changes))
			}
			s := newSynchronizer(Config{Store: held, Link: linktest.Link{Answer: answer}, Log: log, Now: time.Now}, nothingHeld{}, nil)
			s.state.connect()
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.run(ctx)
			}()
			select {
			case <-s.state.current:
			case <-ctx.Done():
				rt.Errorf("at change %d of %d after a day", held.Cursor().Seq, latest)
			}
			cancel()
			<-ended
		})
	})
}
