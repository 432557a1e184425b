package db

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	clockEvery   = 10 * time.Second // between two readings of the database's clock
	clockWait    = 5 * time.Second  // for one reading
	clockSkewLog = time.Second      // a difference that is logged
)

// clock gives the time that all processes of one database agree on. Leases and
// times that another process compares with its own are kept in it. On PostgreSQL it
// is the database's clock, and else that of the process.
type clock struct {
	local func() time.Time
	base  atomic.Pointer[clockBase] // nil: local is the clock
}

// clockBase is a time of both clocks at one moment. The time since then is that of
// the local clock, whose monotonic reading takes no notice when it is set.
type clockBase struct{ local, shared time.Time }

// now returns the time.
func (c *clock) now() time.Time {
	base := c.base.Load()
	if base == nil {
		return c.local()
	}
	return base.shared.Add(c.local().Sub(base.local))
}

// toLocal returns the local time of a moment; zero stays zero.
func (c *clock) toLocal(t time.Time) time.Time {
	base := c.base.Load()
	if base == nil || t.IsZero() {
		return t
	}
	return base.local.Add(t.Sub(base.shared))
}

// fromLocal is the reverse of toLocal.
func (c *clock) fromLocal(t time.Time) time.Time {
	base := c.base.Load()
	if base == nil || t.IsZero() {
		return t
	}
	return base.shared.Add(t.Sub(base.local))
}

// set takes in a reading of the database's clock, which was begun at a local time
// and ended at another. A difference that the time between may explain changes
// nothing, so that the clock seldom goes back.
func (c *clock) set(began, ended, shared time.Time) {
	took := ended.Sub(began)
	middle := began.Add(took / 2)
	if base := c.base.Load(); base != nil {
		if off := base.shared.Add(middle.Sub(base.local)).Sub(shared); off.Abs() <= took {
			return
		}
	}
	c.base.Store(&clockBase{middle, shared})
}

// readClock reads the database's clock.
func (d *DB) readClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockWait)
	defer cancel()
	var micros int64
	began := d.clock.local()
	if err := d.read.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros); err != nil {
		return err
	}
	ended := d.clock.local()
	d.clock.set(began, ended, time.UnixMicro(micros).UTC())
	return nil
}

// clockLoop reads the database's clock again and again until ctx ends. Without an
// answer the clock goes on as it was.
func (d *DB) clockLoop(ctx context.Context) {
	tick := time.Tick(clockEvery)
	skewed := false
	for {
		skew := d.clock.now().Sub(d.clock.local())
		switch far := skew.Abs() > clockSkewLog; {
		case far && !skewed:
			d.log.Warn("this machine's clock differs from the database's, which counts", "database_ahead", skew)
			skewed = true
		case !far && skewed:
			d.log.Info("this machine's clock agrees with the database's again")
			skewed = false
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if err := d.readClock(ctx); err != nil && ctx.Err() == nil {
			d.log.Debug("reading the database's clock", "err", err)
		}
	}
}
