package origin

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"partneredge/store/logtest"
)

const month = 30 * 24 * time.Hour

// retentionTest has rounds of retention by a clock of its own, over a database with firings.
type retentionTest struct {
	*fixture
	*retention
	began   time.Time
	passed  time.Duration // which nobody sets
	off     time.Duration // of the clock
	keep    time.Duration // firings
	made    int           // rounds that made partitions
	account string
	text    *logtest.Buffer
}

func newRetentionTest(t *testing.T) *retentionTest {
	t.Helper()
	r := &retentionTest{fixture: newFixture(t), began: time.Now(), keep: month, text: new(logtest.Buffer)}
	r.account = r.fixture.account("setup")
	for range 3 {
		r.must(201, "POST", accounts+"/"+r.account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	}
	r.fixture.stop()
	r.restart()
	return r
}

// restart has another process go on.
func (r *retentionTest) restart() {
	r.retention = newRetention(r.config.DB, Retention{Firings: r.keep}, slog.New(slog.NewTextHandler(r.text, nil)))
	r.clock.now = func() time.Time { return r.began.Add(r.passed + r.off) }
	r.clock.since = func() time.Time { return r.began.Add(r.passed) }
	r.prepare = func(context.Context) error { r.made++; return nil }
}

// after has a round after a time, and holds how many firings are left, and whether the round
// was held up.
func (r *retentionTest) after(wait time.Duration, want int, held bool) {
	r.Helper()
	r.passed += wait
	r.round(r.Context())
	view, err := r.config.DB.Firings(r.Context(), r.account, time.Time{}, 100)
	if err != nil {
		r.Fatal(err)
	}
	if left := len(view.Items); left != want || r.clock.held.Load() != held {
		r.Fatalf("after %v with the clock off by %v, %d firings are left, held %t; want %d, %t", r.passed, r.off, left, r.clock.held.Load(), want, held)
	}
}

// heldFor has the rounds of a length of time, all of which are held up.
func (r *retentionTest) heldFor(length time.Duration) {
	r.Helper()
	for range length / retentionEvery {
		r.after(retentionEvery, 3, true)
	}
}

// warnings counts the lines of the log that say that retention is held.
func (r *retentionTest) warnings() int { return strings.Count(r.text.String(), "far ahead") }

// TestRetentionIsHeldWhileTheClockIsAhead: nothing goes while the clock is far ahead for a
// moment, in the process that goes on or in one that starts then. One line of the log says so.
func TestRetentionIsHeldWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	r := newRetentionTest(t)
	r.after(0, 3, false)
	r.off = 365 * 24 * time.Hour
	for range 6 {
		r.after(retentionEvery, 3, true)
	}
	if n := r.warnings(); n != 1 {
		t.Errorf("the log says so %d times:\n%s", n, r.text)
	}
	r.restart()
	r.after(retentionEvery, 3, true)
	r.off = 0
	r.after(retentionEvery, 3, false)
	r.off = -365 * 24 * time.Hour // and back, by which it is far ahead of the last round
	r.after(retentionEvery, 3, false)
	r.off = 0
	r.after(retentionEvery, 3, true)
	r.heldFor(retentionHeld - retentionEvery)
	r.after(retentionEvery, 3, false)
	r.after(month, 0, false) // in one round, by the time of the process
}

// TestRetentionGoesByAClockThatStays: what is old goes once the clock has been ahead for a
// day, as after a month in which no origin ran. A clock that was put back waits again.
func TestRetentionGoesByAClockThatStays(t *testing.T) {
	t.Parallel()
	r := newRetentionTest(t)
	r.after(0, 3, false)
	r.restart()
	r.off = month + 3*24*time.Hour
	r.after(time.Hour, 3, true)
	r.heldFor(retentionHeld - time.Hour)
	r.off = month
	r.after(0, 3, true)
	r.heldFor(retentionHeld - retentionEvery)
	r.after(retentionEvery, 0, false)
	if n := r.warnings(); n != 2 {
		t.Errorf("the log says %d times that it is held:\n%s", n, r.text)
	}
}

// TestRetentionIsHeldOverStarts: the day in which origins run with a clock that is ahead is
// one of many processes, or of a machine that sleeps in between.
func TestRetentionIsHeldOverStarts(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(*retentionTest){
		"starts": func(r *retentionTest) { r.passed += 3 * 24 * time.Hour; r.restart() },
		"sleeps": func(r *retentionTest) { r.off += 3 * 24 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetentionTest(t)
			r.after(0, 3, false)
			r.passed = month
			r.restart()
			for range 2 {
				r.after(0, 3, true)
				r.heldFor(8 * time.Hour)
				pause(r)
			}
			r.after(0, 3, true)
			r.heldFor(8*time.Hour - retentionEvery)
			r.after(retentionEvery, 0, false)
		})
	}
}

// TestRetentionIsHeldByRunning: neither the time of a round that was long in coming nor that
// of a second origin counts twice.
func TestRetentionIsHeldByRunning(t *testing.T) {
	t.Parallel()
	r := newRetentionTest(t)
	r.after(0, 3, false)
	r.restart()
	other := r.retention
	r.restart()
	r.off = month
	r.after(0, 3, true)
	r.after(retentionHeld, 3, true) // of which two rounds count
	for range (retentionHeld - 3*retentionEvery) / retentionEvery {
		other.round(t.Context())
		r.after(retentionEvery, 3, true)
	}
	r.after(retentionEvery, 0, false)
}

// TestPartitionsAreMadeWhileRetentionIsHeld, but not by a clock that origins have run with
// for less than an hour: it may be wrong for a moment.
func TestPartitionsAreMadeWhileRetentionIsHeld(t *testing.T) {
	t.Parallel()
	r := newRetentionTest(t)
	r.after(0, 3, false)
	r.off = month
	r.made = 0
	for range retentionStands / retentionEvery {
		r.after(retentionEvery, 3, true)
	}
	if r.made != 0 {
		t.Error("a clock that was only just found ahead makes partitions")
	}
	r.after(retentionEvery, 3, true)
	r.restart()
	r.after(retentionEvery, 3, true)
	if r.made != 2 {
		t.Errorf("of two rounds that are held up %d make partitions", r.made)
	}
}

// TestRetentionAfterANight: the time in which no origin ran, for a night, holds up nothing
// that is kept long, and what is kept for a day for a day of running.
func TestRetentionAfterANight(t *testing.T) {
	t.Parallel()
	r := newRetentionTest(t)
	r.after(0, 3, false)
	for range 36 {
		r.restart()
		r.after(20*time.Hour, 3, false)
	}
	r.restart()
	r.after(20*time.Hour, 0, false)

	const evening, morning = 16 * time.Hour, 24 * time.Hour
	for keep, gone := range map[time.Duration]time.Duration{
		24 * time.Hour: 2*morning + 8*time.Hour, 10 * time.Hour: morning + 10*time.Hour,
	} {
		r := newRetentionTest(t)
		r.keep = keep
		r.restart()
		for r.passed < gone {
			r.round(t.Context())
			if r.passed += retentionEvery; r.passed%morning > evening {
				r.passed = r.passed.Truncate(morning) + morning
				r.restart()
			}
		}
		r.after(0, 0, false)
	}
}

// TestRetentionJudgesByWhatIsKeptLeast: the less is kept, the less the clock may be ahead, and
// the sooner what is old goes all the same.
func TestRetentionJudgesByWhatIsKeptLeast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for least, want := range map[time.Duration]struct{ ahead, hold time.Duration }{
		time.Minute:    {30 * time.Minute, time.Minute},
		10 * time.Hour: {time.Hour, 10 * time.Hour},
		month:          {24 * time.Hour, 24 * time.Hour},
	} {
		clock := newRetention(f.config.DB, Retention{Contacts: least}, f.config.Log).clock
		if clock.ahead != want.ahead || clock.hold != want.hold {
			t.Errorf("with %v kept the clock may be %v ahead and is held for %v, want %v", least, clock.ahead, clock.hold, want)
		}
	}
}
