package replication

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/wire"
	"partneredge/store/central"
)

// Probes of the database.
const (
	probeEvery   = time.Second
	probeTime    = 2 * time.Second // after which nodes give up asking for changes, too
	probesFailed = 2               // in a row, until others take the requests: one may be a connection that was cut
)

// queue is this origin process's part of the queue group, whose members take each request
// of a node once.
type queue struct {
	handlers map[string]nats.MsgHandler // by verb
	subs     []*nats.Subscription       // none while this process is out of the group

	endProbes context.CancelFunc
	probes    sync.WaitGroup
}

// join subscribes this origin process to its share of the nodes' requests.
func (r *requests) join() error {
	for verb, handle := range r.queue.handlers {
		if err := r.listen(&r.queue.subs, verb, wire.Queue, handle); err != nil {
			return err
		}
	}
	return nil
}

// leave leaves further requests to the other origin processes. Those that have come and are
// not under way get no answer: without a database they would fail. To drain would be worse,
// for what is drained while the connection is away is subscribed again when it is back, with
// nobody to hear it.
func (r *requests) leave() {
	for _, sub := range r.queue.subs {
		_ = sub.Unsubscribe() // the connection has ended, and the subscription with it
	}
	r.queue.subs = nil
}

// startProbes keeps this origin process out of the queue group while its database does not
// answer: NATS would go on giving it its share of the requests, which fail here and not at an
// origin whose database does. SQLite is the database of one process, for which nobody stands in.
func (r *requests) startProbes() {
	ctx, cancel := context.WithCancel(r.ctx)
	r.queue.endProbes = cancel
	if r.DB.Kind() == "sqlite" {
		return
	}
	failed := 0 // in a row
	r.queue.probes.Go(func() {
		backoff.Every(ctx, probeEvery, func() {
			err := r.probe(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				if failed++; failed == probesFailed {
					r.Log.Warn("the database does not answer: other origins are to answer the nodes", "err", err)
					r.leave()
				}
			case failed < probesFailed:
				failed = 0
			default:
				if err := r.join(); err != nil {
					r.limited.Warn("join", "cannot answer the nodes again", "err", err)
					r.leave()
					return
				}
				failed = 0
				r.Log.Info("the database answers again: answering nodes again")
			}
		})
	})
}

// probe reads of the database what a request of a node reads at least.
func (r *requests) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err := r.DB.ChangesSince(ctx, central.Position{}, 1)
	return err
}
