package origin

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

const month = 30 * 24 * time.Hour

// retentionTest has rounds of retention by a clock of its own, over a database with firings.
type retentionTest struct {
	*fixture
	*retention
	began   time.Time
	passed  time.Duration // which nobody sets
	off     time.Duration // of the clock
	account string
	text    *safeBuffer
}

func newRetentionTest(t *testing.T) *retentionTest {
	t.Helper()
	r := &retentionTest{fixture: newFixture(t), began: time.Now(), text: new(safeBuffer)}
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
	r.retention = newRetention(r.config.DB, Retention{Firings: month}, slog.New(slog.NewTextHandler(r.text, nil)))
	r.clock.now = func() time.Time { return r.began.Add(r.passed + r.off) }
	r.clock.since = func() time.Time { return r.began.Add(r.passed) }
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

// warnings counts the lines of the log that say that retention is held.
func (r *retentionTest) warnings() int { return strings.Count(r.text.String(), "far ahead") }

// TestRetentionIsHeldWhileTheClockIsAhead: nothing goes while the clock is far ahead for a
// moment, in the process that goes on or in one that starts then. One line of the log says so.
func TestRetentionIsHeldWhileTheClockIsAhead(t *testing.T) {
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
	r.after(retentionHeld, 3, false)
	r.after(month, 0, false) // in one round, by the time of the process
}

// TestRetentionGoesByAClockThatStays: what is old goes once the clock has been ahead for a
// day, as after a month in which no origin ran. A clock that was set again waits again.
func TestRetentionGoesByAClockThatStays(t *testing.T) {
	r := newRetentionTest(t)
	r.after(0, 3, false)
	r.restart()
	r.off = month
	r.after(time.Hour, 3, true)
	r.after(retentionHeld-time.Hour, 3, true)
	r.off += 3 * 24 * time.Hour
	r.after(2*time.Hour, 3, true)
	r.after(retentionHeld-time.Hour, 3, true)
	r.after(time.Hour, 0, false)
	if n := r.warnings(); n != 2 {
		t.Errorf("the log says %d times that it is held:\n%s", n, r.text)
	}
}

// TestRetentionAfterANight: the time in which no origin ran, for a night, holds nothing up.
func TestRetentionAfterANight(t *testing.T) {
	r := newRetentionTest(t)
	r.after(0, 3, false)
	for range 36 {
		r.restart()
		r.after(20*time.Hour, 3, false)
	}
	r.restart()
	r.after(20*time.Hour, 0, false)
}

// TestRetentionJudgesByWhatIsKeptLeast: the less is kept, the less the clock may be ahead.
func TestRetentionJudgesByWhatIsKeptLeast(t *testing.T) {
	f := newFixture(t)
	for least, want := range map[time.Duration]time.Duration{
		time.Minute: 30 * time.Minute, 10 * time.Hour: time.Hour, month: 24 * time.Hour,
	} {
		if ahead := newRetention(f.config.DB, Retention{Contacts: least}, f.config.Log).clock.ahead; ahead != want {
			t.Errorf("with %v kept the clock may be %v ahead, want %v", least, ahead, want)
		}
	}
}
