package replication

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// Times and sizes of the pump.
const (
	pumpEvery   = time.Second
	changesKept = 1_000_000 // a node further behind than this starts afresh
	pruneEvery  = time.Minute
)

// pump pushes changes to the nodes: at once when woken, and every second, with
// or without changes, so that a node learns of what it missed and of what
// another origin process wrote.
type pump struct {
	Config
	limited *logging.Limiter // a database that is away fails every push
	wake    signal.Signal
	last    atomic.Int64 // the last change pushed

	history string // that last is a number of

	long func() bool // the short form is not read by all
}

// start counts all present changes as pushed: nodes ask for older ones.
func (p *pump) start(ctx context.Context) error {
	log, err := p.DB.ChangesSince(ctx, central.Position{}, 1)
	if err != nil {
		return fmt.Errorf("reading the last change: %w", err)
	}
	p.last.Store(log.Latest)
	p.history = log.History
	return nil
}

// run pushes until ctx ends.
func (p *pump) run(ctx context.Context) {
	tick := time.Tick(pumpEvery)
	pruned := time.Now()
	for {
		beat := false
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick:
			beat = true
		}
		if err := p.push(ctx, beat); err != nil && ctx.Err() == nil {
			p.limited.Warn("push", "cannot push changes", "err", err)
		}
		if time.Since(pruned) < pruneEvery {
			continue
		}
		pruned = time.Now()
		if err := p.DB.PruneChanges(ctx, changesKept); err != nil && ctx.Err() == nil {
			p.limited.Warn("prune", "cannot prune changes", "err", err)
		}
	}
}

// push publishes the changes since the last push; with beat, a message in any
// case.
func (p *pump) push(ctx context.Context, beat bool) error {
	for {
		log, err := p.DB.ChangesSince(ctx, central.Position{History: p.history, Seq: p.last.Load()}, wire.MaxChanges)
		if err != nil {
			return err
		}
		p.history = log.History
		if log.Reset { // nodes see the gap, or the other history, and ask
			beat = true
			p.last.Store(log.Latest)
		}
		if len(log.Changes) == 0 && !beat {
			return nil
		}
		if err := p.publish(log); err != nil {
			return err
		}
		beat = false
		if len(log.Changes) == 0 {
			return nil
		}
		p.last.Store(log.Changes[len(log.Changes)-1].Seq)
	}
}

func (p *pump) publish(log central.ChangeLog) error {
	body, err := wire.Encode(&wire.Changed{Changes: log.Changes, Latest: log.Latest, History: log.History, Short: !p.long()})
	if err != nil {
		return err
	}
	return p.Conn.Publish(wire.Changes, body)
}
