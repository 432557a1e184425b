package replication

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
)

// nothingHeld is a replica without records.
type nothingHeld struct{}

func (nothingHeld) note([]store.Change) []int { return nil }
func (nothingHeld) apply(store.Change) error  { return nil }
func (nothingHeld) outdate()                  {}

// TestWaitingIsBounded: messages that wait are dropped by their bytes, and by their number.
func TestWaitingIsBounded(t *testing.T) {
	for _, c := range []struct{ size, most int }{{1 << 20, 31}, {1, maxPushed}} { // each has a subject as well
		p := newPushed()
		m := &nats.Msg{Subject: wire.Changes, Data: make([]byte, c.size)}
		for round := range 2 {
			n := 0
			for p.put(m) {
				n++
			}
			if n != c.most {
				t.Errorf("round %d: %d messages of %d bytes wait, want %d", round, n, c.size, c.most)
			}
			for ; n > 0; n-- {
				p.taken(<-p.messages)
			}
			if left := p.bytes.Load(); left != 0 {
				t.Errorf("round %d: %d bytes are left where nothing waits", round, left)
			}
		}
	}
}

// noting sends to noted for each message that it takes in.
type noting struct {
	nothingHeld
	noted chan struct{}
}

func (n noting) note([]store.Change) []int {
	n.noted <- struct{}{}
	return nil
}

// TestHandledMessagesMakeRoom: a message that is handled waits no more.
func TestHandledMessagesMakeRoom(t *testing.T) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	log := slog.New(slog.DiscardHandler)
	replica := noting{noted: make(chan struct{})}
	// On a busy machine the node asks before the message is handled.
	silent := linktest.Link{Answer: func(context.Context, wire.Message, wire.Message) error { return host.ErrUnavailable }}
	s := newSynchronizer(Config{Store: held, Link: silent, Log: log, Now: time.Now}, replica, nil)
	s.state = newState(func() bool { return true }, log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	body, err := wire.Encode(&wire.Changed{Changes: []store.Change{{Seq: 1, Kind: store.ChangeKey, Ref: "key_1"}}, Latest: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.take(&nats.Msg{Data: append(body, bytes.Repeat([]byte(" "), 1<<20)...)})
	<-replica.noted
	if left := s.pushed.bytes.Load(); left != 0 {
		t.Errorf("%d bytes wait while the only message is handled", left)
	}
	cancel()
	<-ended
}

// TestPushedMessages says of messages in the order in which several origins' arrive
// whether there is anything to ask for: only where a change is missing, or the history
// is another.
func TestPushedMessages(t *testing.T) {
	t.Run("long", func(t *testing.T) { testPushedMessages(t, false) })
	t.Run("short", func(t *testing.T) { testPushedMessages(t, true) })
}

func testPushedMessages(t *testing.T, short bool) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	log := slog.New(slog.DiscardHandler)
	s := newSynchronizer(Config{Store: held, Link: new(link.Link), Log: log, Now: time.Now}, nothingHeld{}, nil)
	s.state = newState(func() bool { return true }, log)
	if err := held.Follow("his_1"); err != nil {
		t.Fatal(err)
	}
	changes := func(from, to int64) (list []store.Change) {
		for seq := from; seq <= to; seq++ {
			list = append(list, store.Change{Seq: seq, Kind: store.ChangeKey, Ref: "key_1"})
		}
		return list
	}
	for i, c := range []struct {
		pushed wire.Changed
		want   finding
		seq    int64
	}{
		{wire.Changed{Changes: changes(1, 2), Latest: 2, History: "his_1"}, complete, 2},
		{wire.Changed{Changes: changes(1, 4), Latest: 4, History: "his_1"}, complete, 4},
		{wire.Changed{Changes: changes(3, 3), Latest: 3, History: "his_1"}, overtaken, 4}, // of another origin, later
		{wire.Changed{Latest: 3, History: "his_1"}, overtaken, 4},
		{wire.Changed{Latest: 3}, missing, 4}, // of an origin that names no history
		{wire.Changed{Changes: changes(5, 6), Latest: 9, History: "his_1"}, following, 6},
		{wire.Changed{Changes: changes(5, 7), Latest: 9, History: "his_1"}, following, 7}, // of another origin, overlapping
		{wire.Changed{Changes: changes(5, 6), Latest: 9, History: "his_1"}, following, 7}, // nothing new
		{wire.Changed{Changes: changes(7, 9), Latest: 9, History: "his_1"}, complete, 9},
		{wire.Changed{Changes: changes(11, 11), Latest: 11, History: "his_1"}, missing, 9},
		{wire.Changed{Latest: 12, History: "his_1"}, missing, 9},
		{wire.Changed{Latest: 9, History: "his_2"}, missing, 9},
	} {
		c.pushed.Short = short
		body, err := wire.Encode(&c.pushed)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.handle(&nats.Msg{Data: body}); got != c.want || held.Cursor().Seq != c.seq {
			t.Errorf("message %d: %d at change %d, want %d at %d", i, got, held.Cursor().Seq, c.want, c.seq)
		}
	}
}
