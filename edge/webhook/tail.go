package webhook

import (
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// tailMost is how many tries a reader may be behind before it misses some.
const tailMost = 256

// Tail returns the tries of this process as they end, until end is called. A
// reader that falls behind misses some, and delays no delivery.
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

// publish sends a try to the readers of Tail. s.mu is held.
func (s *Sender) publish(t *try, o deliveries.Outcome) {
	if len(s.tails) == 0 {
		return
	}
	tried := store.Tried{
		SubscriptionID: t.queue.id, TargetURL: t.target.raw, EventID: t.item.EventID, EventType: t.item.EventType,
		State: o.State, NextAt: o.NextAt, Attempt: o.Attempt,
	}
	for c := range s.tails {
		select {
		case c <- tried:
		default:
		}
	}
}
