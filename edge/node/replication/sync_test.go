package replication

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/store/local"
)

// TestMessagesThatWaitedAreNoNews: a heartbeat that may have waited on the way does not
// count as the origin's state at the time when it is read. While the node is in sync it does.
func TestMessagesThatWaitedAreNoNews(t *testing.T) {
	for name, happens := range map[string]func(*synchronizer){
		"the process is suspended":  func(*synchronizer) { time.Sleep(2 * time.Hour) },
		"the connection ends":       func(s *synchronizer) { s.state.disconnect() },
		"the node catches up":       func(s *synchronizer) { s.state.connect() },
		"the heartbeats time out":   func(s *synchronizer) { s.state.timeOut() },
		"the origin does not reply": func(s *synchronizer) { s.state.connect(); s.state.failed(s.state.presentAttempt()) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, heartbeat := emptyConfig(t)
			synctest.Test(t, func(t *testing.T) {
				s := newSynchronizer(cfg, nothingHeld{}, nil)
				s.state.connect()
				s.state.complete(s.state.presentAttempt())
				s.handle(heartbeat)
				heard := s.Store.Cursor().CompleteAt
				if !heard.Equal(time.Now()) {
					t.Fatalf("a heartbeat of %v counts as one of %v", time.Now(), heard)
				}
				happens(s)
				time.Sleep(suspensionGap / 2)
				s.handle(heartbeat)
				if got := s.Store.Cursor().CompleteAt; !got.Equal(heard) || s.state.isInSync() {
					t.Errorf("the heartbeat counts as news of %v, in sync %t", got.Sub(heard), s.state.isInSync())
				}
			})
		})
	}
}

// TestHeartbeatAfterATimeout: the node asks the origin once it is heard again, and is in sync
// by the answer.
func TestHeartbeatAfterATimeout(t *testing.T) {
	var asked atomic.Int64
	cfg, heartbeat := emptyConfig(t)
	cfg.Link = linktest.Link{Answer: func(context.Context, wire.Message, wire.Message) error {
		asked.Add(1)
		return nil
	}}
	synctest.Test(t, func(t *testing.T) {
		s := newSynchronizer(cfg, nothingHeld{}, nil)
		s.state.connect()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx)
		}()
		synctest.Wait()
		time.Sleep(heartbeatTimeout)
		synctest.Wait()
		if s.state.isInSync() || asked.Load() != 1 {
			t.Fatalf("without a heartbeat the node is in sync %t, and has asked %d times", s.state.isInSync(), asked.Load())
		}
		s.take(heartbeat)
		synctest.Wait()
		if at := s.Store.Cursor().CompleteAt; !s.state.isInSync() || asked.Load() != 2 || !at.Equal(time.Now()) {
			t.Errorf("after a heartbeat the node is in sync %t as of %v, and has asked %d times", s.state.isInSync(), at, asked.Load())
		}
		cancel()
		<-ended
	})
}

// emptyConfig returns the config of a replica without records, and a heartbeat of an origin
// that has no change either.
func emptyConfig(t *testing.T) (Config, *nats.Msg) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	body, err := wire.Encode(&wire.Changed{})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Store: held, Link: linktest.Link{}, Log: slog.New(slog.DiscardHandler), Now: time.Now}, &nats.Msg{Data: body}
}
