package replication

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
)

// slowLink takes a time for each record that a message holds: the next of a few times that
// differ, none longer than the timeout.
type slowLink struct {
	each  []time.Duration
	times int
}

func drawSlowLink(t *rapid.T, timeout time.Duration) *slowLink {
	each := rapid.SliceOfN(rapid.Int64Range(1, int64(timeout)-1), 1, 5).Draw(t, "time for a record")
	l := new(slowLink)
	for _, d := range each {
		l.each = append(l.each, time.Duration(d))
	}
	return l
}

// carry returns once a message with n records is carried, or fails when ctx ends first.
func (l *slowLink) carry(ctx context.Context, n int) error {
	each := l.each[l.times%len(l.each)]
	l.times++
	select {
	case <-time.After(time.Duration(n) * each):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
	}
}

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
		slow := drawSlowLink(rt, answerTimeout)
		synctest.Test(t, func(t *testing.T) {
			answer := func(ctx context.Context, req, reply wire.Message) error {
				asked, changes := req.(*wire.ChangesRequest), reply.(*wire.ChangesReply)
				*changes = wire.ChangesReply{History: "his_1", Latest: latest}
				for seq := asked.Since + 1; seq <= min(latest, asked.Since+int64(asked.Limit)); seq++ {
					changes.Changes = append(changes.Changes, store.Change{Seq: seq, Kind: store.ChangeKey, Ref: "key_1"})
				}
				return slow.carry(ctx, len(changes.Changes))
			}
			s := newSynchronizer(Config{Store: held, Link: testLink{answer: answer}, Log: log, Now: time.Now}, nothingHeld{}, nil)
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
		slow := drawSlowLink(rt, timeout)
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
					err = box.SetAside(t.Context(), lead, "no room")
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			committed, all := map[string]bool{}, make(chan struct{})
			answer := func(ctx context.Context, req, reply wire.Message) error {
				leads, answer := req.(*wire.LeadsRequest), reply.(*wire.LeadsReply)
				if err := slow.carry(ctx, len(leads.Leads)+len(leads.Raw)); err != nil {
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
			h := newHandoff(Config{
				Store: &local.Store{Outbox: box}, Link: testLink{answer: answer}, WriteTimeout: timeout,
				Counters: Counters{Leads: func(string, int) {}}, Log: log, Now: time.Now,
			})
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.run(ctx)
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
