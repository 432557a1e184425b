package webhook

import (
	"errors"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// stream is events written by two at a time, fifty a second each, whatever
// happens to the database meanwhile.
type stream struct {
	t       *testing.T
	stop    chan struct{}
	writers sync.WaitGroup

	mu       sync.Mutex
	accepted []string // event ids
	refused  []error
}

func (r *rig) stream(t *testing.T) *stream {
	s := &stream{t: t, stop: make(chan struct{})}
	for range 2 {
		s.writers.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-s.stop:
					return
				case <-pace.C:
				}
				_, event, err := r.db.AddFiring(t.Context(), store.Firing{AccountID: r.account, Name: "n", Data: []byte("{}"), Action: "a"})
				s.mu.Lock()
				switch {
				case err == nil:
					s.accepted = append(s.accepted, event.ID)
				case errors.Is(err, store.ErrUnavailable):
					s.refused = append(s.refused, err)
				default:
					t.Errorf("refused with %v", err)
				}
				s.mu.Unlock()
			}
		})
	}
	return s
}

func (s *stream) counts() (accepted, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted), len(s.refused)
}

// goOn waits until events are written, and some arrive.
func (s *stream) goOn(at *receiver) {
	s.t.Helper()
	written, _ := s.counts()
	arrived := at.count()
	until(s.t, "events are written and sent", time.Minute, func() bool {
		now, _ := s.counts()
		return now > written && at.count() > arrived
	})
}

// refuses waits until n more events are refused.
func (s *stream) refuses(n int) {
	s.t.Helper()
	_, before := s.counts()
	until(s.t, "events are refused", time.Minute, func() bool {
		_, now := s.counts()
		return now >= before+n
	})
}

func (s *stream) end() {
	close(s.stop)
	s.writers.Wait()
}

// settle waits until nothing is to be delivered, and holds what is logged to what
// was accepted and to what arrived.
func (s *stream) settle(db *central.DB, toHealthy, toFailing store.Subscription, healthy, failing *receiver) {
	s.t.Helper()
	if n := settled(s.t, db, toHealthy, healthy, s.accepted, len(soon)+1); n[store.StateDead] > 0 {
		s.t.Errorf("deliveries to an endpoint that answers are %v", n)
	}
	if n := settled(s.t, db, toFailing, failing, s.accepted, len(soon)+1); n[store.StateDelivered] > 0 {
		s.t.Errorf("deliveries to an endpoint that fails are %v", n)
	}
}
