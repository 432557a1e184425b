package central

import (
	"context"
	"errors"
	"math"
	"time"
)

// Times of one kind of row are unique within an account: pages are told apart
// by them. A time that is taken moves forward by microseconds to the first that
// is free. The transaction holds the account, so that it stays free.

const (
	nudgeRows = 1024  // times read at once
	nudgeBack = 100e3 // microseconds read before the one asked for: callers that wait together ask in any order
)

// series is the times of one table's rows in one account.
type series struct{ table, column, account string }

// times is what a transaction knows of a series.
type times struct {
	from, upto int64          // the span that was read
	taken      map[int64]bool // in that span
	given      map[int64]bool // by this transaction, written or not
}

// nudge moves at forward by microseconds until the account has no row of table
// at that time.
func (t *tx) nudge(ctx context.Context, table, column, account string, at time.Time) (time.Time, error) {
	s := series{table, column, account}
	known := t.times[s]
	if known == nil {
		known = &times{from: 1, given: make(map[int64]bool)}
		if t.times == nil {
			t.times = make(map[series]*times)
		}
		t.times[s] = known
	}
	for us := at.UnixMicro(); ; us++ {
		if us < known.from || us > known.upto {
			if err := t.readTimes(ctx, s, known, us-nudgeBack); err != nil {
				return at, err
			}
		}
		if us > known.upto { // there were more before it than are read at once
			if err := t.readTimes(ctx, s, known, us); err != nil {
				return at, err
			}
		}
		if !known.taken[us] && !known.given[us] {
			known.given[us] = true
			return timeOf(us), nil
		}
	}
}

// readTimes reads what is taken in the series, beginning at from.
func (t *tx) readTimes(ctx context.Context, s series, known *times, from int64) error {
	rows, err := t.query(ctx, `SELECT `+s.column+` FROM `+s.table+`
		WHERE account_id = ? AND `+s.column+` >= ? ORDER BY `+s.column+` LIMIT ?`, s.account, from, nudgeRows)
	if err != nil {
		return err
	}
	taken, last := make(map[int64]bool), int64(0)
	for rows.Next() {
		if err := rows.Scan(&last); err != nil {
			_ = rows.Close()
			return err
		}
		taken[last] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	known.from, known.upto, known.taken = from, math.MaxInt64, taken
	if len(taken) == nudgeRows {
		known.upto = last
	}
	return nil
}
