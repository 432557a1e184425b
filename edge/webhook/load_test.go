package webhook

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/logtest"
)

// load is a sender at work while its database has trouble: events written by two
// at a time, fifty a second each, for an endpoint that answers and one that fails.
type load struct {
	*fixture
	t                    *testing.T
	healthy, failing     *receiver
	toHealthy, toFailing store.Subscription
	log                  *logtest.Buffer // the sender's
	stop                 chan struct{}
	writers              sync.WaitGroup

	mu       sync.Mutex
	accepted []string // event ids
	refused  []error
}

func startLoad(t *testing.T, url string) *load {
	s := &load{t: t, log: &logtest.Buffer{}, stop: make(chan struct{}),
		healthy: newReceiver(t, nil),
		failing: newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }),
	}
	s.fixture = newFixture(t, url, Config{
		CAFile: caFile(t, s.healthy), Schedule: soon, HoldMost: 100 * time.Millisecond,
		// What a claim leased whose answer was lost waits for the lease's end.
		Timeout: 10 * time.Second, Lease: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	s.toHealthy, s.toFailing = s.subscribe(s.healthy.URL), s.subscribe(s.failing.URL)
	for range 2 {
		s.writers.Go(s.write)
	}
	return s
}

func (s *load) write() {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-pace.C:
		}
		_, event, err := s.db.AddFiring(s.t.Context(), store.Firing{AccountID: s.account, Name: "n", Data: []byte("{}"), Action: "a"})
		s.mu.Lock()
		switch {
		case err == nil:
			s.accepted = append(s.accepted, event.ID)
		case errors.Is(err, store.ErrUnavailable):
			s.refused = append(s.refused, err)
		default:
			s.t.Errorf("refused with %v", err)
		}
		s.mu.Unlock()
	}
}

func (s *load) counts() (accepted, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted), len(s.refused)
}

// awaitProgress waits until events are written, and some arrive.
func (s *load) awaitProgress() {
	s.t.Helper()
	written, _ := s.counts()
	arrived := s.healthy.count()
	until(s.t, "events are written and sent", func() bool {
		now, _ := s.counts()
		return now > written && s.healthy.count() > arrived
	})
}

// awaitRefused waits until n more events are refused.
func (s *load) awaitRefused(n int) {
	s.t.Helper()
	_, before := s.counts()
	until(s.t, "events are refused", func() bool {
		_, now := s.counts()
		return now >= before+n
	})
}

// settle ends the events, waits until nothing is to be delivered, and holds what is
// logged to what was accepted and to what arrived.
func (s *load) settle(db *central.DB) {
	s.t.Helper()
	close(s.stop)
	s.writers.Wait()
	if n := settled(s.t, db, s.toHealthy, s.healthy, s.accepted, len(soon)+1); n[store.StateDead] > 0 {
		s.t.Errorf("deliveries to an endpoint that answers are %v", n)
	}
	if n := settled(s.t, db, s.toFailing, s.failing, s.accepted, len(soon)+1); n[store.StateDelivered] > 0 {
		s.t.Errorf("deliveries to an endpoint that fails are %v", n)
	}
}
