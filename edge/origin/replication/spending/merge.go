// Package spending merges at an origin the rate-limit reports of all nodes, and tells each
// node how the buckets of its keys stand.
package spending

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/grant"
	"partneredge/store/ratelimit"
	"partneredge/store/signal"
)

// Config of a Merger. Every field is required.
type Config struct {
	DB   *central.DB
	Conn *nats.Conn
	Log  *slog.Logger
	Now  func() time.Time
	// Address returns the address of a node in subjects.
	Address func(node string) string
}

const (
	shareAgain  = 10 * time.Millisecond // when a share that was not due is looked at again
	forgetEvery = time.Minute
)

// SharePause is the time between two looks for shares that are due, however many nodes
// report.
const SharePause = 2 * time.Millisecond

// Merger merges the rate-limit reports of all nodes, and tells each node how the
// buckets stand. It holds nothing that another process could not learn from the
// nodes' next reports, so each of several origin processes keeps one.
type Merger struct {
	cfg     Config
	buckets ratelimit.Merger
	lives   lives
	limits  *keyLimits
	wake    signal.Signal // a share may be due
}

// New returns a Merger, which tells nodes what others spent while it runs.
func New(cfg Config) *Merger {
	return &Merger{cfg: cfg, limits: &keyLimits{read: cfg.DB.KeyLimits, now: cfg.Now, noted: signal.New()}, wake: signal.New()}
}

// Keys counts the keys whose reports are merged.
func (m *Merger) Keys() int { return m.buckets.Len() }

// Report merges a node's report and answers with its shares. Each key counts by
// its own limit, whatever the report says. A key that does not exist, or is
// revoked, has nothing left, and nothing is kept of it. A key that the node does not
// prove to hold is not counted, unless the node is vouched for; with another key's hash
// that is an error, and so is a key whose limit cannot be read: it is not answered, so that it
// comes again. The others count.
func (m *Merger) Report(ctx context.Context, node string, vouched bool, s wire.Spend) error {
	if len(s.Keys) > wire.MaxSpendKeys || s.Boot == "" || len(s.Boot) > wire.MaxBootLength {
		return fmt.Errorf("%w: a spend report out of bounds", store.ErrInvalid)
	}
	for key, r := range s.Keys {
		if key == "" || len(key) > wire.MaxKeyIDLength || r.Spent < 0 || r.Acked < 0 || r.From < 0 || r.Owed < 0 {
			return fmt.Errorf("%w: a spend report out of bounds", store.ErrInvalid)
		}
	}
	if len(s.Keys) == 0 {
		return nil
	}
	if !m.lives.note(node, s.Boot, m.cfg.Now()) {
		return fmt.Errorf("%w: a spend report of too many lives of a node", store.ErrInvalid)
	}
	limits, unread := m.limits.of(ctx, s.Keys)
	apart := make(map[string]ratelimit.Share)
	counted := make(map[string]ratelimit.Report, len(s.Keys))
	var refused error
	for key, r := range s.Keys {
		limit, known := limits[key]
		switch {
		case !known:
		case limit.PerMinute < 1:
			apart[key] = r.NothingLeft()
		case len(r.KeyHash) == 0 && !vouched:
			apart[key] = r.Uncounted()
		case len(r.KeyHash) > 0 && !bytes.Equal(r.KeyHash, limit.Hash[:]):
			refused = grant.OtherKey
		default:
			r.Limit = int64(limit.PerMinute)
			counted[key] = r.Report
		}
	}
	from := ratelimit.Reporter{Node: node, Boot: s.Boot}
	shares := m.buckets.Merge(from, counted, m.cfg.Now().UnixMicro())
	maps.Copy(shares, apart)
	m.wake.Send()
	return cmp.Or(m.publish(from, shares), refused, unread)
}

func (m *Merger) publish(to ratelimit.Reporter, shares map[string]ratelimit.Share) error {
	return m.send(to, &wire.Share{Keys: shares})
}

// Confirm confirms a report of what keys were used for.
func (m *Merger) Confirm(to ratelimit.Reporter, report wire.Used) error {
	return m.send(to, &wire.Share{Used: &report})
}

func (m *Merger) send(to ratelimit.Reporter, share *wire.Share) error {
	share.Boot = to.Boot
	body, err := wire.Encode(share)
	if err == nil {
		err = m.cfg.Conn.Publish(wire.ToNode+m.cfg.Address(to.Node)+"."+wire.VerbShare, body)
	}
	if err != nil {
		return fmt.Errorf("sharing with node %s: %w", to.Node, err)
	}
	return nil
}

// Run publishes to each node what others spent, and looks up old limits, until ctx ends.
func (m *Merger) Run(ctx context.Context) {
	var limits sync.WaitGroup
	limits.Go(func() { m.limits.run(ctx) })
	defer limits.Wait()
	forget := time.Tick(forgetEvery)
	again := time.NewTimer(shareAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-forget:
			m.buckets.Forget(m.cfg.Now().UnixMicro())
			m.limits.forget()
			m.lives.forget(m.cfg.Now())
			continue
		case <-m.wake:
		case <-again.C:
		}
		due, more := m.buckets.Due(m.cfg.Now().UnixMicro())
		for reporter, shares := range due {
			if err := m.publish(reporter, shares); err != nil {
				m.cfg.Log.Warn("shares not told", "err", err) // they come with the next
			}
		}
		if more {
			again.Reset(shareAgain)
		}
		_ = backoff.Pause(ctx, SharePause)
	}
}
