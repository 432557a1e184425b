package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"partneredge/edge/wire"
	"partneredge/store/central"
)

const (
	changesPushed = 1_000_000
	changesMissed = 1_000_000
)

// changes measures what a change costs a node that does not hold the record, and how
// fast a node catches up that was away for a million changes.
func (b *bench) changes(ctx context.Context, s *site) error {
	if _, err := s.startOrigin(ctx, s.DB); err != nil {
		return err
	}
	credentials, err := s.enrol(ctx, "follower")
	if err != nil {
		return err
	}
	order := followerOrder{URL: s.Broker.URL(), Credentials: credentials, Dir: filepath.Join(s.dir, "follower")}
	f, err := follow(ctx, order)
	if err != nil {
		return err
	}
	before, err := f.until(ctx, "the follower to be current", func(r followerReport) bool { return r.Current > 0 })
	if err != nil {
		return errors.Join(err, f.Stop())
	}
	var long atomic.Int64
	if _, err := s.Broker.Conn().Subscribe(wire.Changes, func(m *nats.Msg) {
		if longForm(m) {
			long.Add(1)
		}
	}); err != nil {
		return errors.Join(err, f.Stop())
	}
	if err := s.change(ctx, changesPushed); err != nil {
		return errors.Join(err, f.Stop())
	}
	after, err := f.until(ctx, "the changes to be pushed", func(r followerReport) bool { return r.Seq >= changesPushed })
	if err := errors.Join(err, f.Stop()); err != nil {
		return err
	}
	if n := long.Load(); n > 0 {
		return fmt.Errorf("%d messages came in the long form of changes, which is not to be measured", n)
	}
	b.Printf("%d changes pushed, %d asks", changesPushed, after.Asks-before.Asks)
	b.Figure("skip_ns", float64((after.CPU-before.CPU).Nanoseconds())/changesPushed, "ns")

	if err := s.change(ctx, changesMissed); err != nil {
		return err
	}
	if f, err = follow(ctx, order); err != nil {
		return err
	}
	caught, err := f.until(ctx, "the follower to catch up", func(r followerReport) bool { return r.Current > 0 })
	if err := errors.Join(err, f.Stop()); err != nil {
		return err
	}
	b.Printf("%d changes caught up with in %.2f s and %d asks", caught.Seq-changesPushed, caught.Current.Seconds(), caught.Asks)
	b.Figure("catch_up_per_s", float64(caught.Seq-changesPushed)/caught.Current.Seconds(), "changes")
	return nil
}

// change writes changes of keys that no follower holds.
func (s *site) change(ctx context.Context, n int) error {
	_, err := s.SQL.ExecContext(ctx, `WITH c AS (UPDATE change_counter SET seq = seq + $1 RETURNING seq - $1 AS seq)
		INSERT INTO changes (seq, kind, ref, gone) SELECT c.seq + i, 'key', 'key_' || lpad((c.seq + i)::text, 26, '0'), i % 2
		FROM c, generate_series(1, $1::bigint) i`, n)
	if err == nil {
		_, err = s.SQL.ExecContext(ctx, `ANALYZE changes`) // which PostgreSQL does by itself within a minute
	}
	return err
}

const (
	askOrigins = 4
	askFor     = 10 * time.Second
	askPace    = 20 * time.Millisecond // between two changes of an origin
)

// asks measures how often a node asks for changes that are on their way to it anyway,
// when four origin processes write.
func (b *bench) asks(ctx context.Context, s *site) (err error) {
	if err := s.accounts(ctx, askOrigins); err != nil {
		return err
	}
	var dbs []*central.DB
	for range askOrigins {
		db, err := s.open(ctx)
		if err != nil {
			return err
		}
		if _, err := s.startOrigin(ctx, db); err != nil {
			return err
		}
		dbs = append(dbs, db)
	}
	credentials, err := s.enrol(ctx, "follower")
	if err != nil {
		return err
	}
	f, err := follow(ctx, followerOrder{URL: s.Broker.URL(), Credentials: credentials, Dir: filepath.Join(s.dir, "follower")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	before, err := f.until(ctx, "the follower to be current", func(r followerReport) bool { return r.Current > 0 })
	if err != nil {
		return err
	}
	began := time.Now()
	writing, writes := errgroup.WithContext(ctx)
	for i, db := range dbs {
		writing.Go(func() error {
			tick := time.Tick(askPace)
			for ; time.Since(began) < askFor; <-tick {
				if err := fire(writes, db, i+1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writing.Wait(); err != nil {
		return err
	}
	after, err := f.report()
	if err != nil {
		return err
	}
	asked := float64(after.Asks - before.Asks)
	b.Printf("%d origins, %d changes in %.0f s: %.0f asks", askOrigins, after.Seq-before.Seq, askFor.Seconds(), asked)
	b.Figure("needless_asks", asked/time.Since(began).Minutes(), "1/min")
	return nil
}
