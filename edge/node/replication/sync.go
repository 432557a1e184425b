package replication

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// synchronizer keeps the replica in step with the origin: it applies the changes
// that the origin pushes, and asks for those that it missed.
//
// A change may be applied twice, and early, without harm. The cursor moves only
// over changes that were applied, in order.
type synchronizer struct {
	Config
	state    *state
	replica  changeable
	warnings *logging.Limiter
	// onOtherHistory is called before the replica is reset because the origin's data
	// is not what the node has followed: it may lack what it confirmed before. When
	// the node ends before the reset, it is called again. When it fails, the cursor
	// says so from the reset on.
	onOtherHistory func() error

	pushed pushed

	// Of run alone:
	room    []store.Change // of the last message, used again
	portion link.Portion   // most changes in the next answer
}

// changeable takes changes in.
type changeable interface {
	// note takes in changes, and returns the places of those that are to be applied.
	note([]store.Change) (concerned []int)
	apply(store.Change) error
	// outdate is called when every record has become stale.
	outdate()
}

const (
	// restWithin is the time within which the origin pushes the rest of what one message
	// did not hold, and within which a message that another overtook is followed by one
	// that is not. What has not come by then is asked for.
	restWithin = time.Second
	// answerTimeout bounds a request for changes. An origin that can be reached
	// answers sooner.
	answerTimeout = 2 * time.Second
)

func newSynchronizer(cfg Config, replica changeable, onOtherHistory func() error) *synchronizer {
	return &synchronizer{
		Config: cfg, state: newState(cfg.Link.Up, cfg.Log), replica: replica, warnings: logging.New(cfg.Log),
		onOtherHistory: onOtherHistory, pushed: newPushed(), portion: link.NewPortion(wire.MaxChanges),
	}
}

// trusts reports whether a held record may still be served. A time that lies
// ahead, because the clock was put back, counts as if it lay as far behind.
func (s *synchronizer) trusts(rec local.Record) bool {
	if s.state.isInSync() {
		return true
	}
	now, last := s.Now(), s.Store.Cursor().CompleteAt
	if rec.Fetched.After(last) && !rec.Fetched.After(now) {
		last = rec.Fetched
	}
	return Between(last, now) <= s.MaxStale
}

// age returns how long the node has not known whether anything changed, 0 while
// it is in sync.
func (s *synchronizer) age() time.Duration {
	if s.state.isInSync() {
		return 0
	}
	return Between(s.Store.Cursor().CompleteAt, s.Now())
}

// run handles pushed messages and catches up when it must, until ctx ends.
func (s *synchronizer) run(ctx context.Context) {
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	heartbeat := time.NewTimer(heartbeatTimeout)
	defer heartbeat.Stop()
	again, behind := time.After(heartbeatTimeout), false
	var rest <-chan time.Time // nil: nothing is awaited
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.state.behind:
			behind = true
		case <-again:
			behind = true
		case <-rest:
			behind, rest = true, nil
		case <-heartbeat.C:
			s.state.timeOut()
		case m := <-s.pushed.messages:
			s.pushed.taken(m)
			heartbeat.Reset(heartbeatTimeout)
			switch s.handle(m) {
			case missing:
				behind = true
				s.state.gap()
			case following:
				rest = time.After(restWithin)
			case overtaken:
				if rest == nil { // each heartbeat of an origin that went back is one
					rest = time.After(restWithin)
				}
			case complete:
				rest = nil
			case undated:
				rest = nil
				behind = behind || again == nil // else a question is due already
			}
		}
		// Messages that wait may close the gap.
		if !behind || len(s.pushed.messages) > 0 || !s.Link.Up() {
			continue
		}
		behind = false
		attempt, from := s.state.presentAttempt(), s.Store.Cursor().Seq
		if err := s.catchUp(ctx, attempt); err != nil {
			s.state.failed(attempt)
			if s.Store.Cursor().Seq > from { // over a slow link, changes come in many tries
				retry.Reset()
			}
			if ctx.Err() == nil && !link.Permanent(err) { // of which the link warns
				s.warnings.Warn("behind", "cannot catch up with origin", "err", err)
			}
			again = time.After(retry.Next())
			continue
		}
		retry.Reset()
		heartbeat.Reset(heartbeatTimeout) // the answer is a sign of life too
		again, rest = nil, nil
	}
}

// take queues a pushed message for run, unless too many wait.
func (s *synchronizer) take(m *nats.Msg) {
	if !s.pushed.put(m) {
		s.warnings.Warn("dropped", "too many pushed changes wait: asking for those that are dropped", "bytes", s.pushed.bytes.Load())
	}
}

// finding says, after a pushed message, which changes are known or missing.
type finding int

const (
	complete   finding = iota // every earlier change is known
	undated                   // the same, but the message may be late: the origin is to be asked
	unreadable                // nothing
	overtaken                 // a later message came before it, or the origin went back
	following                 // the next message brings more
	missing                   // there are changes to ask for
)

// handle applies a pushed message. Only while the node is in sync, and so heard the origin a
// moment before, does the message show what the origin has now. Otherwise it may have waited
// since before the node was cut off or suspended, and only the answer to a question counts.
func (s *synchronizer) handle(m *nats.Msg) finding {
	pushed := wire.Changed{Changes: s.room}
	if !s.Link.Decode("changes", m.Data, &pushed) {
		return unreadable
	}
	if pushed.Changes != nil { // a heartbeat has none
		s.room = pushed.Changes
	}
	if pushed.History != "" && pushed.History != s.Store.Cursor().History {
		s.state.otherHistory()
		return missing
	}
	at := s.Now() // first: present sees a suspension before it, and one after it leaves it as it is
	phase := s.state.present()
	last := int64(math.MaxInt64) // a message without changes says nothing of the next one
	if n := len(pushed.Changes); n > 0 {
		last = pushed.Changes[n-1].Seq
	}
	seq, err := s.applyAll(pushed.Changes)
	if seq != pushed.Latest || err != nil || phase != inSync {
		at = time.Time{}
	}
	err = cmp.Or(err, s.Store.Advance(seq, at))
	switch {
	case err != nil:
		s.Log.Error("cannot apply changes", "err", err)
		return missing
	case seq == pushed.Latest && phase == timedOut:
		return undated
	case seq == pushed.Latest:
		return complete
	case seq > pushed.Latest && pushed.History != "":
		// Several origins push the same changes, one before the other. One that was put
		// back names another history, unless its database hides that: a standby that took
		// over, or a dump restored under running origins. Then no message ever catches up.
		return overtaken
	case seq < pushed.Latest && seq >= last:
		return following
	}
	return missing
}

// catchUp asks the origin for changes until none is missing.
func (s *synchronizer) catchUp(ctx context.Context, attempt int) error {
	for {
		cursor := s.Store.Cursor()
		from := cursor.Seq
		empty := from == 0 && s.Store.Keys.Len()+s.Store.Views.Len() == 0
		req := wire.ChangesRequest{Since: from, History: cursor.History, Limit: s.portion.Now}
		if empty {
			req.Limit = 1 // an empty replica needs only the number of the last change
		}
		at := s.Now()
		var reply wire.ChangesReply
		within, cancel := context.WithTimeout(ctx, answerTimeout)
		err := s.Link.Ask(within, wire.VerbChanges, &req, &reply)
		cancel()
		if err != nil {
			if !empty {
				s.portion.Failed(req.Limit, err)
			}
			return err
		}
		if !empty {
			s.portion.Answered()
		}
		if reply.Reset || reply.Latest < from || empty && reply.Latest > 0 {
			if err := s.reset(&reply, empty); err != nil {
				return err
			}
		} else if seq, err := s.applyAll(reply.Changes); err != nil {
			return err
		} else if err := s.follow(reply.History, seq); err != nil {
			return err
		} else if seq < reply.Latest && seq == from {
			return fmt.Errorf("origin's changes have a gap after %d", from)
		}
		if seq := s.Store.Cursor().Seq; seq >= reply.Latest {
			if err := s.Store.Advance(seq, at); err != nil {
				return err
			}
			s.state.complete(attempt)
			return nil
		}
	}
}

// reset makes every record stale, and goes on from the origin's last change.
func (s *synchronizer) reset(reply *wire.ChangesReply, empty bool) error {
	cursor := s.Store.Cursor()
	if !empty {
		s.Log.Warn("origin cannot tell all that changed: asking for every record again",
			"cursor", cursor.Seq, "history", cursor.History, "latest", reply.Latest, "latest_history", reply.History)
	}
	offerDue := false
	if reply.History != cursor.History || reply.Latest < cursor.Seq {
		if err := s.onOtherHistory(); err != nil {
			s.warnings.Warn("offer", "cannot offer leads again yet", "err", err)
			offerDue = true
		}
	}
	if err := s.Store.Reset(reply.Latest, cmp.Or(reply.History, cursor.History), offerDue); err != nil {
		return err
	}
	s.replica.outdate()
	return nil
}

// follow moves the cursor to seq in the history of a reply, which the origin knows to
// begin where the replica is, or later. An older origin names none.
func (s *synchronizer) follow(history string, seq int64) error {
	if history != "" {
		if err := s.Store.Follow(history); err != nil {
			return err
		}
	}
	return s.Store.Advance(seq, time.Time{})
}

// applyAll applies changes, which are in order, also those beyond a gap. The cursor may move to seq, the
// last one before a gap. A change that fails keeps none of the others from being applied.
func (s *synchronizer) applyAll(changes []store.Change) (seq int64, err error) {
	seq = s.Store.Cursor().Seq
	for len(changes) > 0 && changes[0].Seq <= seq { // they overlap with what is known
		changes = changes[1:]
	}
	concerned := s.replica.note(changes)
	for i, c := range changes {
		var failed error
		if len(concerned) > 0 && concerned[0] == i {
			concerned = concerned[1:]
			failed = s.replica.apply(c)
		}
		if failed != nil {
			err = cmp.Or(err, fmt.Errorf("apply change %d: %w", c.Seq, failed))
		} else if c.Seq == seq+1 {
			seq = c.Seq
		}
	}
	return seq, err
}
