package origin

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"partneredge/store/central"
)

// Times by which retention judges the clock.
const (
	// retentionHeld is how long an origin goes on by a clock that was put ahead before
	// retention goes by it too.
	retentionHeld = 24 * time.Hour
	// retentionAhead is how far the clock may be ahead of where the last round has it, as
	// after a night in which no origin ran.
	retentionAhead = 24 * time.Hour
	// retentionAheadPart is that as a part of the least time that anything is kept, where
	// it is less than retentionAhead.
	retentionAheadPart = 10
)

// clockJudge tells whether records may be dropped by the clock. One that was put far ahead
// for a moment would drop what can never be had back, so until it has been so for a day
// nothing goes. The time of the last round is in the database, for the rounds of other
// processes and after a start.
type clockJudge struct {
	db    *central.DB
	now   func() time.Time // the clock
	since func() time.Time // the time of the process, which nobody sets
	log   *slog.Logger
	ahead time.Duration // of the last round, at most

	noted time.Time // by since, when the last round was noted; zero before
	doubt *doubt    // nil: none
	held  atomic.Bool
}

// doubt holds when a clock was found ahead, by itself and by the time of the process.
type doubt struct{ at, began time.Time }

// newClockJudge returns the judge of what is kept for least and longer.
func newClockJudge(d *central.DB, log *slog.Logger, least time.Duration) *clockJudge {
	return &clockJudge{
		db: d, now: d.Now, since: time.Now, log: log,
		ahead: min(retentionAhead, max(least/retentionAheadPart, 3*retentionEvery)),
	}
}

// begin returns the time of a round, and false if nothing may be dropped by it.
func (j *clockJudge) begin(ctx context.Context) (now time.Time, ok bool, err error) {
	last, err := j.db.RetentionRound(ctx)
	if err != nil {
		return now, false, err
	}
	now = j.now()
	passed := j.since()
	if last.IsZero() || now.Sub(last) <= j.ahead+j.sinceNoted(passed) {
		j.doubt = nil
	} else if !j.stands(now, passed) {
		j.doubt = &doubt{now, passed}
		j.held.Store(true)
		j.log.Warn("the clock is far ahead of the last round of retention: nothing is dropped for its age until it has been so for a while",
			"ahead", now.Sub(last).Round(time.Second), "last_round", last, "clock", now, "while", retentionHeld)
		return now, false, nil
	} else if passed.Sub(j.doubt.began) < retentionHeld {
		return now, false, nil
	}
	if err := j.db.NoteRetentionRound(ctx, now); err != nil {
		return now, false, err
	}
	if j.noted = passed; j.held.Swap(false) {
		j.log.Info("retention goes by the clock again", "clock", now)
	}
	j.doubt = nil
	return now, true, nil
}

// sinceNoted returns how long ago this process noted a round.
func (j *clockJudge) sinceNoted(passed time.Time) time.Duration {
	if j.noted.IsZero() {
		return 0
	}
	return passed.Sub(j.noted)
}

// stands reports whether the clock has only gone on since it was found ahead.
func (j *clockJudge) stands(now, passed time.Time) bool {
	return j.doubt != nil && (now.Sub(j.doubt.at)-passed.Sub(j.doubt.began)).Abs() <= j.ahead
}
