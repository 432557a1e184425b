package node

import (
	"context"
	"fmt"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

const (
	changesAtOnce = 5000 // one answer may bring
	// answering is how long an origin that is there needs at most.
	answering = 2 * time.Second
)

// catchUp asks until nothing is missing, and tells in which turn.
func (f *follower) catchUp(ctx context.Context) (turn int, err error) {
	f.mu.Lock()
	turn = f.turn
	f.mu.Unlock()
	return turn, f.askAll(ctx, turn)
}

func (f *follower) askAll(ctx context.Context, turn int) error {
	for {
		from := f.store.Cursor().Seq
		nothing := from == 0 && f.store.Keys.Len()+f.store.Views.Len() == 0
		req := wire.ChangesRequest{Since: from, Limit: changesAtOnce}
		if nothing {
			req.Limit = 1 // who holds nothing misses nothing, but the number
		}
		at := f.now()
		var reply wire.ChangesReply
		within, cancel := context.WithTimeout(ctx, answering)
		err := f.link.ask(within, wire.VerbChanges, &req, &reply)
		cancel()
		if err != nil {
			return err
		}
		switch {
		case reply.Reset, reply.Latest < from, nothing && reply.Latest > 0:
			if !nothing {
				f.log.Warn("origin cannot tell all that changed: asking for every record again", "cursor", from, "latest", reply.Latest)
			}
			if err := f.store.Reset(reply.Latest); err != nil {
				return err
			}
		default:
			done, err := f.take(reply.Changes)
			if err != nil {
				return err
			}
			if done < reply.Latest && done == from {
				return fmt.Errorf("origin's changes have a gap after %d", from)
			}
		}
		if seq := f.store.Cursor().Seq; seq >= reply.Latest {
			return f.follow(seq, at, turn)
		}
	}
}

// take applies changes, also those beyond a gap, and moves the cursor over
// those before it.
func (f *follower) take(changes []store.Change) (done int64, err error) {
	done = f.store.Cursor().Seq
	from := done
	for _, c := range changes {
		if c.Seq <= from {
			continue
		}
		if err := f.apply(c); err != nil {
			return done, fmt.Errorf("apply change %d: %w", c.Seq, err)
		}
		if c.Seq == done+1 {
			done = c.Seq
		}
	}
	if done > from {
		err = f.store.Follow(done, time.Time{})
	}
	return done, err
}
