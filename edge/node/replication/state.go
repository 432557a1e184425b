package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/store/signal"
)

// phase names a stage of keeping a node's replica in step with the origin.
type phase int

const (
	disconnected phase = iota // no connection: held records are served as they are
	timedOut                  // connected, but no heartbeat comes: the same
	catchingUp                // missed changes are being asked for: requests wait
	inSync                    // every change is known
)

const (
	// heartbeatTimeout bounds the time without a message of the origin, which sends
	// a heartbeat every second.
	heartbeatTimeout = 3500 * time.Millisecond

	// A process that was suspended (SIGSTOP, a debugger, a suspended machine)
	// resumes as if no time had passed: its connection looks whole, and what was
	// pushed meanwhile has not been read. Either watch, which looks every
	// suspensionCheck, or a request sees the gap first. A watch that is late for
	// want of a processor costs one question to the origin.
	suspensionCheck = 100 * time.Millisecond
	suspensionGap   = time.Second
)

// state knows whether the replica is in sync, and makes requests wait while it
// catches up.
type state struct {
	up      func() bool // whether there is a connection
	log     *slog.Logger
	behind  signal.Signal // there are, or may be, changes to ask for
	current chan struct{} // closed when the node first knew every change

	mu      sync.Mutex
	phase   phase
	attempt int           // counts the times that catching up has begun
	settled chan struct{} // closed while the phase is not catchingUp
	seen    time.Time     // when the process was last seen running
}

func newState(up func() bool, log *slog.Logger) *state {
	s := &state{
		up: up, log: log, behind: signal.New(), current: make(chan struct{}),
		settled: make(chan struct{}), seen: time.Now(),
	}
	close(s.settled)
	return s
}

// catchUp begins to catch up. mu is held.
func (s *state) catchUp() {
	if s.phase != catchingUp {
		s.settled = make(chan struct{})
	}
	s.phase = catchingUp
	s.attempt++
	s.behind.Send()
}

// settle ends catching up. mu is held.
func (s *state) settle(to phase) {
	if s.phase == catchingUp {
		close(s.settled)
	}
	s.phase = to
}

// connect is called each time that there is a connection.
func (s *state) connect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
}

// disconnect is called each time that the connection ends.
func (s *state) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(disconnected)
}

// timeOut is called when no heartbeat came in time. It does not end catching up,
// which shows by itself whether the origin answers.
func (s *state) timeOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == inSync {
		s.phase = timedOut
	}
}

// gap is called when a message shows that changes were missed. After a timeout
// they must be known before anything is served.
func (s *state) gap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == timedOut {
		s.catchUp()
	}
}

// otherHistory is called when the origin's changes are of another history than the
// replica's. Nothing is served before it is known what that means.
func (s *state) otherHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != disconnected && s.phase != catchingUp {
		s.catchUp()
	}
}

// failed is called when an attempt to catch up got no answer.
func (s *state) failed(attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != disconnected && attempt == s.attempt {
		s.settle(timedOut)
	}
}

// complete is called when the answer to a question of an attempt says that every change
// is known. While the node catches up, only the present attempt counts: another answer
// may have waited since before the node was cut off.
func (s *state) complete(attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == catchingUp && attempt != s.attempt {
		return
	}
	if s.phase != disconnected {
		s.settle(inSync)
	}
	select {
	case <-s.current:
	default:
		close(s.current)
	}
}

func (s *state) presentAttempt() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt
}

// present returns the phase, after looking whether the process was suspended.
func (s *state) present() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkSuspension()
	return s.phase
}

func (s *state) isInSync() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == inSync
}

// wait returns when the node is not catching up, or ctx ends: a key that was
// revoked while the node was cut off must not be served before that is known.
// It does not wait for an origin that does not answer.
func (s *state) wait(ctx context.Context) {
	settled := s.settling()
	if settled == nil {
		return
	}
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// settling returns a channel that is closed when the node is not catching up any more,
// nil if it is not now.
func (s *state) settling() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkSuspension()
	if s.phase == disconnected && s.up() {
		s.catchUp() // the connection's own callback is on its way
	}
	if s.phase != catchingUp {
		return nil
	}
	return s.settled
}

// watch looks for suspensions of the process until ctx ends.
func (s *state) watch(ctx context.Context) {
	backoff.Every(ctx, suspensionCheck, func() { s.present() })
}

// Between returns the time between two moments, the longer of what two clocks say: the
// monotonic one stands still while the machine is suspended, and the other may be set.
func Between(a, b time.Time) time.Duration {
	return max(b.Sub(a).Abs(), b.Round(0).Sub(a.Round(0)).Abs())
}

// checkSuspension begins to catch up if the process was suspended. mu is held.
func (s *state) checkSuspension() {
	now := time.Now()
	suspended := Between(s.seen, now) > suspensionGap
	s.seen = now
	if suspended && s.phase != disconnected {
		s.log.Warn("process was suspended, or the clock set: catching up with origin")
		s.catchUp()
	}
}
