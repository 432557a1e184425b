package replication

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// wakePause is the shortest time between two wake-ups that one origin process
// publishes.
const wakePause = 10 * time.Millisecond

// waker publishes to the other origin processes that deliveries are due, and
// receives it from them. When a message is lost, they find the deliveries with
// their next poll.
type waker struct {
	conn   *nats.Conn
	self   string // names this process
	onWake func()
	log    *slog.Logger
	wake   signal
}

func newWaker(cfg Config) *waker {
	return &waker{conn: cfg.Conn, self: rand.Text(), onWake: cfg.OnWake, log: cfg.Log, wake: newSignal()}
}

// start subscribes to the others.
func (w *waker) start() error {
	_, err := w.conn.Subscribe(wire.WakeUp, func(m *nats.Msg) {
		var received wire.Wake
		if wire.Decode(m.Data, &received) == nil && received.From != w.self {
			w.onWake()
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
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if err := w.conn.Publish(wire.WakeUp, body); err != nil && ctx.Err() == nil {
			w.log.Debug("waking the other origins", "err", err)
		}
		pause.Reset(wakePause)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}
