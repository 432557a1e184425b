package webhook

import (
	"time"

	"partneredge/store"
)

// tailMost is how many tries wait for a reader before more are left out.
const tailMost = 256

// Tail gives the tries of this process as they end, until end is called. A
// reader that falls behind misses some, and keeps nothing waiting.
func (s *Sender) Tail() (tries <-chan store.Tried, end func()) {
	c := make(chan store.Tried, tailMost)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tails[c] {
			delete(s.tails, c)
			close(c)
		}
	}
}

// tell tells who looks on of a try. s.mu is held.
func (s *Sender) tell(t *try, a store.Attempt, state store.State, next time.Time) {
	if len(s.tails) == 0 {
		return
	}
	tried := store.Tried{
		SubscriptionID: t.queue.id, TargetURL: t.target.raw, EventID: t.item.EventID, EventType: t.item.EventType,
		State: state, NextAt: next, Attempt: a,
	}
	for c := range s.tails {
		select {
		case c <- tried:
		default:
		}
	}
}
