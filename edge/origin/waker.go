package origin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// wakeLeast is the shortest time between two messages of one origin.
const wakeLeast = 10 * time.Millisecond

// waker tells the other origin processes that deliveries are due, and hears it
// from them. What gets lost is found when they next look by themselves.
type waker struct {
	conn  *nats.Conn
	self  string // names this process
	woken func()
	log   *slog.Logger
	wake  chan struct{} // holds one
}

func newWaker(conn *nats.Conn, woken func(), log *slog.Logger) *waker {
	return &waker{conn: conn, self: rand.Text(), woken: woken, log: log, wake: make(chan struct{}, 1)}
}

// start hears the others.
func (w *waker) start() error {
	_, err := w.conn.Subscribe(wire.WakeUp, func(m *nats.Msg) {
		var heard wire.Wake
		if json.Unmarshal(m.Data, &heard) == nil && wire.Understood(heard.V) && heard.From != w.self {
			w.woken()
		}
	})
	return err
}

// poke has the others told soon. It never blocks.
func (w *waker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run tells the others until ctx ends.
func (w *waker) run(ctx context.Context) {
	body, err := encode(wire.Wake{Head: spoken, From: w.self})
	if err != nil { // a message of ours that cannot be written is a fault of ours
		panic(err)
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
		pause.Reset(wakeLeast)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}
