package webhook

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// TestGiveUp: what was to be tried three days ago is given up if its endpoint fails, and
// tried if it does not, as after an outage of the sender. What is given up can be recovered.
func TestGiveUp(t *testing.T) {
	const more = 300 // than are held at a time
	type want struct {
		state    store.State
		attempts int
	}
	for name, test := range map[string]struct {
		status              int // of the first try
		first, old, younger want
		dead                int64
	}{
		"an endpoint that fails": {500, want{store.StateDead, 1}, want{store.StateDead, 0}, want{store.StateDelivered, 1}, 2 + more},
		"one that is well":       {200, want{store.StateDelivered, 1}, want{store.StateDelivered, 1}, want{store.StateDelivered, 1}, 0},
	} {
		path := filepath.Join(t.TempDir(), "origin.db")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, path)
				s.fixture.account = s.liveAccount().ID
				var status atomic.Int64
				status.Store(int64(test.status))
				sub := s.endpoint(s.fixture.account, "a.example.com", func(*http.Request) (int, http.Header, error) {
					return int(status.Load()), nil, nil
				})
				start := func() *Sender { return startSender(t, s.fixture.db, Config{transport: s.fakeEndpoints}) }
				s.fixture.sender = start()
				first := s.fixture.fire()
				sleep(t.Context(), time.Second)
				must(t, s.fixture.sender.Stop(context.Background()))
				status.Store(200)
				old := s.fixture.fire()
				for range more {
					s.fixture.fire()
				}
				sleep(t.Context(), time.Minute)
				younger := s.fixture.fire()
				sleep(t.Context(), giveUpAfter-30*time.Second)
				began := time.Now()
				s.fixture.sender = start()
				sleep(t.Context(), 10*time.Second)
				synctest.Wait()
				expect := func(event string, w want) {
					t.Helper()
					d := s.fixture.deliveries(deliveries.Filter{EventID: event})[0]
					if d.State != w.state || d.Attempts != w.attempts {
						t.Errorf("%s after %d tries, want %s after %d", d.State, d.Attempts, w.state, w.attempts)
					}
				}
				expect(first, test.first)
				expect(old, test.old)
				expect(younger, test.younger)
				if n := s.fixture.sender.Stats().Dead; n != test.dead {
					t.Errorf("%d are given up, want %d", n, test.dead)
				}

				_, err := s.fixture.db.RecoverDeliveries(t.Context(), sub.ID, store.Span{Since: began.Add(-30 * 24 * time.Hour)})
				must(t, err)
				s.fixture.sender.Wake()
				sleep(t.Context(), 10*time.Second)
				synctest.Wait()
				for _, event := range []string{first, old} {
					if d := s.fixture.deliveries(deliveries.Filter{EventID: event})[0]; d.State != store.StateDelivered {
						t.Errorf("recovered, it is %s", d.State)
					}
				}
			})
		})
	}
}
