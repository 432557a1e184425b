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
	// retentionHeld is how long origins run by a clock that was put ahead before retention
	// goes by it too. It is the least time that anything is kept, where that is less.
	retentionHeld = 24 * time.Hour
	// retentionStands is how long they do before partitions are made by it.
	retentionStands = time.Hour
	// retentionAhead is how far the clock may be ahead of where the last round has it, as
	// after a night in which no origin ran.
	retentionAhead = 24 * time.Hour
	// retentionAheadPart is that as a part of the least time that anything is kept, where
	// it is less than retentionAhead.
	retentionAheadPart = 10
)

// clockJudge judges whether records may be dropped by the clock. One that was put far ahead
// for a moment would drop what can never be had back, so until origins have run with it for
// a day nothing goes. The last round and the doubt are in the database, for the rounds of
// other processes and after a start.
type clockJudge struct {
	db    *central.DB
	now   func() time.Time // the clock
	since func() time.Time // the time of the process, which nobody sets
	log   *slog.Logger
	ahead time.Duration // of the last round, at most
	hold  time.Duration // for which it stands before records go by it

	noted time.Time // by since, when the last round was noted; zero before
	begun time.Time // by since, when the last round began; zero before
	held  atomic.Bool
}

// clockVerdict grades how far a round of retention goes by the clock.
type clockVerdict int

const (
	clockDoubted clockVerdict = iota // nothing: it may be wrong for a moment
	clockStands                      // what is needed for the records to come
	clockTrusted                     // dropping as well
)

// newClockJudge returns the judge of what is kept for least and longer.
func newClockJudge(d *central.DB, log *slog.Logger, least time.Duration) *clockJudge {
	return &clockJudge{
		db: d, now: d.Now, since: time.Now, log: log,
		ahead: min(retentionAhead, max(least/retentionAheadPart, 3*retentionEvery)),
		hold:  min(retentionHeld, least),
	}
}

// begin returns the time of a round, and what may be done by it.
func (j *clockJudge) begin(ctx context.Context) (now time.Time, may clockVerdict, err error) {
	last, err := j.db.RetentionRound(ctx)
	if err != nil {
		return now, clockDoubted, err
	}
	now = j.now()
	passed := j.since()
	ran := elapsed(j.begun, passed)
	j.begun = passed
	if last.At.IsZero() || now.Sub(last.At) <= j.ahead+elapsed(j.noted, passed) {
		return now, clockTrusted, j.trust(ctx, now, passed)
	}
	next, stands := last, j.stands(last, now)
	if stands {
		// Other origins count the same time, and a machine that slept did not run.
		next.Stood += max(0, min(ran, 2*retentionEvery, now.Sub(last.DoubtAt)))
	} else {
		next.Stood = 0
	}
	if next.Stood >= j.hold {
		return now, clockTrusted, j.trust(ctx, now, passed)
	}
	if !j.held.Swap(true) || !stands {
		j.log.Warn("the clock is far ahead of the last round of retention: nothing is dropped for its age until origins have run with it for the time in held_for",
			"ahead", now.Sub(last.At).Round(time.Second), "last_round", last.At, "clock", now, "held_for", j.hold-next.Stood)
	}
	if next.Stood >= min(j.hold, retentionStands) {
		may = clockStands
	}
	next.DoubtAt = now
	return now, may, j.db.NoteRetentionRound(ctx, next)
}

// trust notes a round that goes by the clock.
func (j *clockJudge) trust(ctx context.Context, now, passed time.Time) error {
	if err := j.db.NoteRetentionRound(ctx, central.RetentionRound{At: now}); err != nil {
		return err
	}
	if j.noted = passed; j.held.Swap(false) {
		j.log.Info("retention goes by the clock again", "clock", now)
	}
	return nil
}

// stands reports whether the clock was found ahead before and was not put back since. How
// far it went on says nothing, since no origin may have run meanwhile.
func (j *clockJudge) stands(last central.RetentionRound, now time.Time) bool {
	return !last.DoubtAt.IsZero() && now.Sub(last.DoubtAt) >= -j.ahead
}

// elapsed returns the time from began until now, 0 where began is not set.
func elapsed(began, now time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	return now.Sub(began)
}
