package origin

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/ratelimit"
)

// Times and bounds of spending.
const (
	shareAgain    = 10 * time.Millisecond // how soon what was not due is looked at again
	forgetEvery   = time.Minute
	maxBootLength = 64
	maxKeyLength  = 64
)

// desk takes in what nodes say they have let through, and tells them how the
// buckets stand. It holds nothing that another process could not learn from the
// nodes' next reports, so each of several origin processes keeps one.
type desk struct {
	ratelimit.Desk
	limits *keyLimits

	now  func() time.Time
	log  *slog.Logger
	conn *nats.Conn
	wake chan struct{} // holds one: there may be something due
}

// take takes in a report of node and answers it at once. Each key counts by its
// own limit, whatever the report says; one that does not exist, or is revoked,
// has nothing left, and nothing is kept of it.
func (d *desk) take(ctx context.Context, node string, s wire.Spend) error {
	if len(s.Keys) > wire.MaxSpendKeys || s.Boot == "" || len(s.Boot) > maxBootLength {
		return fmt.Errorf("%w: a spend report out of bounds", store.ErrInvalid)
	}
	for key, r := range s.Keys {
		if key == "" || len(key) > maxKeyLength || r.Spent < 0 || r.Acked < 0 || r.From < 0 || r.Owed < 0 {
			return fmt.Errorf("%w: a spend report out of bounds", store.ErrInvalid)
		}
	}
	limits, err := d.limits.of(ctx, s.Keys)
	if err != nil {
		return err
	}
	dead := make(map[string]ratelimit.Share)
	for key, r := range s.Keys {
		limit := limits[key]
		if limit < 1 {
			dead[key] = r.Nothing()
			delete(s.Keys, key)
			continue
		}
		if r.Limit != int64(limit) {
			d.log.Debug("a node reports another limit than the key's", "node", node, "key", key, "reported", r.Limit, "limit", limit)
			r.Limit = int64(limit)
			s.Keys[key] = r
		}
	}
	from := ratelimit.Life{Node: node, Boot: s.Boot}
	shares := d.Merge(from, s.Keys, d.now().UnixMicro())
	maps.Copy(shares, dead)
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return d.tell(from, shares)
}

func (d *desk) tell(to ratelimit.Life, shares map[string]ratelimit.Share) error {
	body, err := encode(wire.Share{Head: spoken, Boot: to.Boot, Keys: shares})
	if err == nil {
		err = d.conn.Publish(wire.ToNode+to.Node+"."+wire.VerbShare, body)
	}
	if err != nil {
		return fmt.Errorf("sharing with node %s: %w", to.Node, err)
	}
	return nil
}

// run tells nodes of what others spent, until ctx ends.
func (d *desk) run(ctx context.Context) {
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	again := time.NewTimer(shareAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-forget.C:
			d.Forget(d.now().UnixMicro())
			d.limits.forget()
			continue
		case <-d.wake:
		case <-again.C:
		}
		due, more := d.Due(d.now().UnixMicro())
		for life, shares := range due {
			if err := d.tell(life, shares); err != nil {
				d.log.Warn("shares not told", "err", err) // they come with the next
			}
		}
		if more {
			again.Reset(shareAgain)
		}
	}
}
