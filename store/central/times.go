package central

import (
	"context"
	"math"
	"time"

	"partneredge/store/central/db"
)

// Times of one kind of row are unique within an account: pages are told apart
// by them. A time that a row has already moves forward by microseconds to the
// first that is free. The transaction holds the account, so that it stays free.

const (
	timesRead = 1024  // times read at once
	timesBack = 100e3 // microseconds read before the one asked for: callers that wait together ask in any order
)

// series names the times of one table's rows in one account.
type series struct{ table, column, account string }

// times are what a transaction knows of a series.
type times struct {
	from, upto int64          // the span that was read
	used       map[int64]bool // in that span
	given      map[int64]bool // by this transaction, written or not
}

// uniqueTime moves at forward by microseconds until the account has no row of the
// series at that time.
func (t *tx) uniqueTime(ctx context.Context, s series, at time.Time) (time.Time, error) {
	known := t.times[s]
	if known == nil {
		known = &times{from: 1, given: make(map[int64]bool)}
		t.times[s] = known
	}
	for us := at.UnixMicro(); ; us++ {
		if us < known.from || us > known.upto {
			if err := t.readTimes(ctx, s, known, us-timesBack); err != nil {
				return at, err
			}
		}
		if us > known.upto { // there were more before it than are read at once
			if err := t.readTimes(ctx, s, known, us); err != nil {
				return at, err
			}
		}
		if !known.used[us] && !known.given[us] {
			known.given[us] = true
			return db.TimeOf(us), nil
		}
	}
}

// readTimes reads the times that rows of the series have, beginning at from.
func (t *tx) readTimes(ctx context.Context, s series, known *times, from int64) error {
	read, err := db.All(ctx, t, func(row db.Row) (us int64, err error) {
		err = row.Scan(&us)
		return us, err
	}, `SELECT `+s.column+` FROM `+s.table+`
		WHERE account_id = ? AND `+s.column+` >= ? ORDER BY `+s.column+` LIMIT ?`, s.account, from, timesRead)
	if err != nil {
		return err
	}
	known.from, known.upto, known.used = from, math.MaxInt64, make(map[int64]bool, len(read))
	for _, us := range read {
		known.used[us] = true
	}
	if len(read) == timesRead {
		known.upto = read[timesRead-1]
	}
	return nil
}
