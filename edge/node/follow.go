package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// follower keeps what the node holds in step with the origin: it applies the
// changes that the origin pushes, and asks for those it missed.
//
// A change may be applied twice, and early, without harm. The cursor moves only
// over changes that were applied, in order.
type follower struct {
	store    *local.Store
	link     *link
	apply    func(store.Change) error
	log      *slog.Logger
	seldom   *logging.Limiter
	now      func() time.Time
	maxStale time.Duration

	msgs  chan *nats.Msg
	asked chan struct{} // holds one: there is, or may be, something to ask for

	mu      sync.Mutex
	phase   phase
	awake   time.Time     // when the process was last seen running
	turn    int           // counts the times that catching up has begun
	settled chan struct{} // closed while the phase is not catchingUp
	current chan struct{} // closed when the node first knew all changes
}

// phase of a follower.
type phase int

const (
	away       phase = iota // no connection: what is held is served as it is
	silent                  // a connection, but nobody there: the same
	catchingUp              // the origin is back: what was missed is being asked for, and waited for
	inStep                  // all that changed is known
)

// silence is after how long without a beat, of which the origin gives one a
// second, nobody is there.
const silence = 3500 * time.Millisecond

// pushesHeld is how many pushed messages may wait. Those beyond are dropped,
// and asked for.
const pushesHeld = 4096

func newFollower(s *local.Store, apply func(store.Change) error, c Config) *follower {
	f := &follower{
		store: s, apply: apply, log: c.Log, seldom: logging.New(c.Log), now: c.Now, maxStale: c.MaxStale,
		msgs: make(chan *nats.Msg, pushesHeld), asked: make(chan struct{}, 1),
		awake: time.Now(), settled: make(chan struct{}), current: make(chan struct{}),
	}
	close(f.settled)
	return f
}

// connected is called when there is a connection (again).
func (f *follower) connected() {
	f.mu.Lock()
	f.behind()
	f.mu.Unlock()
}

// behind begins to catch up. mu is held.
func (f *follower) behind() {
	if f.phase != catchingUp {
		f.settled = make(chan struct{})
	}
	f.phase = catchingUp
	f.turn++
	select {
	case f.asked <- struct{}{}:
	default:
	}
}

// lost is called when the connection is gone.
func (f *follower) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(away)
}

// settle ends catching up, one way or the other. mu is held.
func (f *follower) settle(to phase) {
	if f.phase == catchingUp {
		close(f.settled)
	}
	f.phase = to
}

// quiet is called when nothing is heard. Whether somebody answers is then still
// to be seen where the node catches up.
func (f *follower) quiet() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == inStep {
		f.phase = silent
	}
}

// deaf is called when nobody answered what was asked in a turn.
func (f *follower) deaf(turn int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase != away && turn == f.turn {
		f.settle(silent)
	}
}

// ready waits while the node is catching up after it was away: a key that was
// revoked meanwhile must not be served before that is known. It does not wait
// for an origin that does not answer.
func (f *follower) ready(ctx context.Context) {
	f.mu.Lock()
	f.wake()
	if f.phase == away && f.link.up() {
		f.behind() // the connection's own word of it is on its way
	}
	waits, settled := f.phase == catchingUp, f.settled
	f.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// trusts tells whether a record of this age may still be served. A time that
// lies ahead, since the clock was put back, is worth as little as one as far
// behind.
func (f *follower) trusts(rec local.Record) bool {
	f.mu.Lock()
	known := f.phase == inStep
	f.mu.Unlock()
	if known {
		return true
	}
	now, last := f.now(), f.store.Cursor().Heard
	if rec.Fetched.After(last) && !rec.Fetched.After(now) {
		last = rec.Fetched
	}
	return now.Sub(last).Abs() <= f.maxStale
}

// stale tells whether nothing that is held may be served any more: the origin
// has not been heard for too long.
func (f *follower) stale() bool { return !f.trusts(local.Record{}) }

// age is for how long the node has not known whether anything changed, 0 while
// it is in step.
func (f *follower) age() time.Duration {
	f.mu.Lock()
	phase := f.phase
	f.mu.Unlock()
	if phase == inStep {
		return 0
	}
	return max(0, f.now().Sub(f.store.Cursor().Heard))
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	again, beat := time.NewTimer(silence), time.NewTimer(silence)
	defer again.Stop()
	defer beat.Stop()
	behind := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.asked:
			behind = true
		case <-again.C:
			behind = true
		case <-beat.C:
			f.quiet()
		case m := <-f.msgs:
			beat.Reset(silence)
			if !f.push(m) {
				behind = true
				f.missed()
			}
		}
		// Messages that wait may close the gap.
		if !behind || len(f.msgs) > 0 || !f.link.up() {
			continue
		}
		behind = false
		if turn, err := f.catchUp(ctx); err != nil {
			f.deaf(turn)
			if ctx.Err() == nil && !lasting(err) { // of which the link warns
				f.seldom.Warn("behind", "cannot catch up with origin", "err", err)
			}
			again.Reset(retry.Next())
			continue
		}
		retry.Reset()
		again.Stop()
	}
}

// missed is called when a message tells of changes that were not heard. Where
// nothing was heard for long, they must be known before anything is served.
func (f *follower) missed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == silent {
		f.behind()
	}
}

// push takes in a pushed message; false when there is something to ask for.
func (f *follower) push(m *nats.Msg) bool {
	var pushed wire.Changed
	if !f.link.hear("changes", m.Data, &pushed) {
		return true
	}
	at := f.now()
	done, err := f.take(pushed.Changes)
	if err != nil {
		f.log.Error("cannot apply changes", "err", err)
		return false
	}
	if done != pushed.Latest {
		// Later: there is a gap. Earlier: a message that was overtaken, or an
		// origin that was put back; its answer will tell.
		return false
	}
	if err := f.follow(done, at, unasked); err != nil {
		f.log.Error("cannot apply changes", "err", err)
		return false
	}
	return true
}

// unasked is the turn of what the origin said of itself.
const unasked = 0

// follow notes that at was a moment at which seq was the last change. While the
// node catches up, only the answer to what was asked in this turn settles it: a
// message may have waited since before the node was away.
func (f *follower) follow(seq int64, at time.Time, turn int) error {
	if err := f.store.Follow(seq, at); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == catchingUp && turn != f.turn {
		return nil
	}
	if f.phase != away {
		f.settle(inStep)
	}
	select {
	case <-f.current:
	default:
		close(f.current)
	}
	return nil
}
