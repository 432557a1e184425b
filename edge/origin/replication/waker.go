package replication

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/wire"
	"partneredge/store/signal"
)

// wakePause is the shortest time between two wake-ups that one origin process
// publishes.
const wakePause = 10 * time.Millisecond

// waker publishes to the other origin processes that deliveries are due, and
// receives it from them. When a message is lost, they find the deliveries with
// their next poll.
type waker struct {
	Config
	self string // names this process
	wake signal.Signal
}

func newWaker(cfg Config) *waker {
	return &waker{Config: cfg, self: rand.Text(), wake: signal.New()}
}

// start subscribes to the others.
func (w *waker) start() error {
	_, err := w.Conn.Subscribe(wire.WakeUp, func(m *nats.Msg) {
		var received wire.Wake
		if wire.Decode(m.Data, &received) == nil && received.From != w.self {
			w.OnWake()
		}
	})
	return err
}

// run wakes the others until ctx ends.
func (w *waker) run(ctx context.Context) {
	body, err := wire.Encode(&wire.Wake{From: w.self})
	if err != nil {
		panic(err) // a message of two strings always encodes
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if err := w.Conn.Publish(wire.WakeUp, body); err != nil && ctx.Err() == nil {
			w.Log.Debug("waking the other origins", "err", err)
		}
		_ = backoff.Pause(ctx, wakePause)
	}
}
