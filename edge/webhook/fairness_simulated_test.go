//go:build !race

package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// These tests run alone in their own time, in which the race detector makes
// minutes of seconds. `make test` runs them without it.

// Every delivery to an endpoint that fails keeps its own schedule: 5, 30 and
// 180 s, each +-10 %, and at most 4 s more for the breaker; then it is dead.
func TestSimulatedScheduleOfAFailingEndpoint(t *testing.T) {
	for _, test := range []struct {
		name string
		behaviour
		takes time.Duration
		n     int
	}{
		{"500 at once", failing, 0, 40},
		{"500 after 300 ms", after(300*time.Millisecond, failing), 300 * time.Millisecond, 20},
		{"refused", refusing, 0, 40},
		{"redirects", func(*http.Request) (int, http.Header, error) {
			return 302, http.Header{"Location": {"https://healthy.example.com/"}}, nil
		}, 0, 5},
		{"hangs", hanging, 10 * time.Second, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			simulate(t, Config{}, func(s *simulation) {
				s.endpoint(s.fixture.account, "failing.example.com", test.behaviour)
				fired := s.events(s.fixture.account, test.n, 70*time.Millisecond)
				sleep(s.Context(), 6*time.Minute)
				tries := map[string][]sentRequest{}
				for _, sent := range s.to("failing.example.com") {
					tries[sent.event] = append(tries[sent.event], sent)
				}
				for event, at := range fired {
					if len(tries[event]) != 4 {
						t.Fatalf("%d tries, want 4", len(tries[event]))
					}
					due := at
					for i, base := range []time.Duration{0, 5 * time.Second, 30 * time.Second, 180 * time.Second} {
						sent := tries[event][i]
						if wait := sent.at.Sub(due); wait < base*9/10-time.Millisecond || wait > base*11/10+4*time.Second {
							t.Errorf("try %d came %v after the one before, want %v", i+1, wait, base)
						}
						due = sent.end
					}
				}
				for _, d := range s.fixture.deliveries(deliveries.Filter{SubscriptionID: s.fixture.onlySubscription()}) {
					if d.State != store.StateDead || d.Attempts != 4 {
						t.Errorf("delivery %s after %d tries", d.State, d.Attempts)
					}
				}
				if got := len(s.to("healthy.example.com")); got != 0 {
					t.Errorf("a redirect was followed %d times", got)
				}
			})
		})
	}
}

// An endpoint that comes back is at full speed again within seconds.
func TestSimulatedEndpointComesBack(t *testing.T) {
	simulate(t, Config{}, func(s *simulation) {
		back := time.Now().Add(2 * time.Minute)
		s.endpoint(s.fixture.account, "a.example.com", func(q *http.Request) (int, http.Header, error) {
			if time.Now().Before(back) {
				return 503, nil, nil
			}
			return after(20*time.Millisecond, healthy)(q)
		})
		s.events(s.fixture.account, 240, 500*time.Millisecond)
		sleep(s.Context(), 10*time.Second)
		fired := s.events(s.fixture.account, 200, 10*time.Millisecond)
		sleep(s.Context(), 10*time.Second)
		if l := s.latencies("a.example.com", fired); l[len(l)-1] > 200*time.Millisecond {
			t.Errorf("worst latency once it is back: %v", l[len(l)-1])
		}
		if s.most["a.example.com"] > 8 {
			t.Errorf("%d tries at a time", s.most["a.example.com"])
		}
		s.mu.Lock()
		defer s.mu.Unlock()
	})
}

// One endpoint of ten hangs, and has a long queue; the rest do not notice.
func TestSimulatedHangingEndpointHoldsNobodyUp(t *testing.T) {
	simulate(t, Config{}, func(s *simulation) {
		for i := range 9 {
			s.endpoint(s.fixture.account, fmt.Sprintf("h%d.example.com", i), after(5*time.Millisecond, healthy))
		}
		s.endpoint(s.fixture.account, "hanging.example.com", hanging)
		fired := s.events(s.fixture.account, 1500, 10*time.Millisecond)
		sleep(s.Context(), time.Second)
		for i := range 9 {
			host := fmt.Sprintf("h%d.example.com", i)
			if l := s.latencies(host, fired); l[len(l)-1] > 20*time.Millisecond {
				t.Errorf("%s: worst latency %v, median %v", host, l[len(l)-1], l[len(l)/2])
			}
		}
		if s.most["hanging.example.com"] > 8 {
			t.Errorf("%d tries at a time", s.most["hanging.example.com"])
		}
	})
}

// A thousand dead endpoints, of all kinds, beside one that is healthy.
func TestSimulatedThousandDeadEndpoints(t *testing.T) {
	simulate(t, Config{}, func(s *simulation) {
		s.endpoint(s.fixture.account, "healthy.example.com", after(5*time.Millisecond, healthy))
		var accounts []string
		for i := range 10 {
			a, err := s.fixture.db.CreateAccount(s.Context(), store.Account{Name: "B", Mode: store.ModeLive, Agent: store.Agent{Email: "b@example.com", FullName: "B"}})
			must(t, err)
			accounts = append(accounts, a.ID)
			for j := range 100 {
				s.endpoint(a.ID, fmt.Sprintf("d%d.example.com", 100*i+j), []behaviour{hanging, refusing, failing, after(9*time.Second, failing)}[j%4])
			}
		}
		fired := map[string]time.Time{}
		for round := range 60 {
			if round%10 == 0 { // ten to each of the thousand
				for _, a := range accounts {
					s.events(a, 2, 0)
				}
			}
			maps.Copy(fired, s.events(s.fixture.account, 5, 100*time.Millisecond))
		}
		sleep(s.Context(), time.Second)
		if l := s.latencies("healthy.example.com", fired); l[len(l)-1] > 100*time.Millisecond || l[len(l)/2] > 5*time.Millisecond {
			t.Errorf("healthy endpoint: median %v, worst %v", l[len(l)/2], l[len(l)-1])
		}
	})
}

// A sender's memory has room for a healthy endpoint whatever the dead ones have
// waiting, and each gets its share.
func TestSimulatedFullOfDead(t *testing.T) {
	simulate(t, Config{Held: 64}, func(s *simulation) {
		for i := range 20 {
			s.endpoint(s.fixture.account, fmt.Sprintf("d%d.example.com", i), hanging)
		}
		s.endpoint(s.fixture.account, "healthy.example.com", healthy)
		fired := s.events(s.fixture.account, 100, 50*time.Millisecond)
		sleep(s.Context(), 2*time.Second)
		if l := s.latencies("healthy.example.com", fired); l[len(l)-1] > time.Second {
			t.Errorf("healthy endpoint: median %v, worst %v", l[len(l)/2], l[len(l)-1])
		}
		if stats := s.fixture.sender.Stats(); stats.Held > 64+21*windowSure {
			t.Errorf("%d deliveries in memory", stats.Held)
		}
	})
}

func healthy(*http.Request) (int, http.Header, error) { return 200, nil, nil }

func after(d time.Duration, e behaviour) behaviour {
	return func(q *http.Request) (int, http.Header, error) {
		if !sleep(q.Context(), d) {
			return 0, nil, q.Context().Err()
		}
		return e(q)
	}
}

func hanging(q *http.Request) (int, http.Header, error) {
	<-q.Context().Done()
	return 0, nil, q.Context().Err()
}

func refusing(*http.Request) (int, http.Header, error) {
	return 0, nil, errors.New("connection refused")
}

func failing(*http.Request) (int, http.Header, error) { return 500, nil, nil }

func (f *fixture) onlySubscription() string {
	f.t.Helper()
	subs, _, err := f.db.Subscriptions(f.t.Context(), f.account, store.Page{})
	must(f.t, err)
	if len(subs) != 1 {
		f.t.Fatalf("%d subscriptions", len(subs))
	}
	return subs[0].ID
}
