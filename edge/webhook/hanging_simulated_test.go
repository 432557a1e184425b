//go:build !race

package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
)

// These tests put thousands of endpoints that misbehave beside a few that are well, in
// simulated time, and measure how long deliveries to the few wait.

// waitMost is the longest that a delivery to an endpoint that is well may wait.
const waitMost = 2 * time.Second

// crowd is a set of accounts with up to a hundred endpoints each that behave alike.
type crowd struct {
	*simulation
	accounts []string
}

func (s *simulation) crowd(n int, e func(nth int) behaviour) crowd {
	c := crowd{simulation: s}
	for i := range n {
		if i%100 == 0 {
			c.accounts = append(c.accounts, s.account())
		}
		s.endpoint(c.accounts[len(c.accounts)-1], fmt.Sprintf("crowd%d.example.com", i), e(i))
	}
	return c
}

// account makes a live account.
func (s *simulation) account() string {
	s.Helper()
	a, err := s.fixture.db.CreateAccount(s.Context(), store.Account{Name: "B", Mode: store.ModeLive, Agent: store.Agent{Email: "b@example.com", FullName: "B"}})
	must(s.T, err)
	return a.ID
}

// fire makes an event for every endpoint of the crowd.
func (c crowd) fire() {
	for _, a := range c.accounts {
		c.events(a, 1, 0)
	}
}

// probe is an endpoint whose deliveries are measured.
type probe struct {
	host, account string
	fired         map[string]time.Time
}

// probe adds an endpoint in an account of its own.
func (s *simulation) probe(name string, e behaviour) *probe {
	p := &probe{host: name + ".example.com", account: s.account(), fired: map[string]time.Time{}}
	s.endpoint(p.account, p.host, e)
	return p
}

// fire makes an event that is measured.
func (s *simulation) fire(p *probe) {
	maps.Copy(p.fired, s.events(p.account, 1, 0))
}

// check fails the test where a delivery of p waited for longer than most.
func (s *simulation) check(p *probe, most time.Duration) {
	s.Helper()
	l := s.latencies(p.host, p.fired)
	s.Logf("%s: %d deliveries, median %v, worst %v", p.host, len(l), l[len(l)/2], l[len(l)-1])
	if l[len(l)-1] > most {
		s.Errorf("%s: worst latency %v, median %v", p.host, l[len(l)-1], l[len(l)/2])
	}
}

// well is an endpoint that answers in 5 ms.
var well = after(5*time.Millisecond, healthy)

// changing is an endpoint that behaves in one way, and from a time on in another.
func changing(at time.Time, before, then behaviour) behaviour {
	return func(q *http.Request) (int, http.Header, error) {
		if time.Now().Before(at) {
			return before(q)
		}
		return then(q)
	}
}

// once is an endpoint that is well but for the first request after a time.
func once(at time.Time, bad behaviour) behaviour {
	var done atomic.Bool
	return func(q *http.Request) (int, http.Header, error) {
		if !time.Now().Before(at) && done.CompareAndSwap(false, true) {
			return bad(q)
		}
		return well(q)
	}
}

// inTurn is an endpoint that behaves in one way and in the other by turns.
func inTurn(a, b behaviour) behaviour {
	var n atomic.Int64
	return func(q *http.Request) (int, http.Header, error) {
		if n.Add(1)%2 == 1 {
			return a(q)
		}
		return b(q)
	}
}

// Whatever thousands of endpoints do, those that are well, have failed once, are new, or
// have come back do not wait.
func TestSimulatedHealthyBesideACrowd(t *testing.T) {
	same := func(e behaviour) func(int) behaviour { return func(int) behaviour { return e } }
	for _, test := range []struct {
		name  string
		n     int
		every int // half seconds between two events of the crowd
		crowd func(nth int) behaviour
	}{
		{"1500 hang", 1500, 4, same(hanging)},
		{"3000 hang", 3000, 4, same(hanging)},
		{"8000 hang", 8000, 40, same(hanging)},
		{"1500 drip", 1500, 4, same(func(*http.Request) (int, http.Header, error) {
			return 200, http.Header{"Drips": {"400ms"}}, nil
		})},
		{"1500 answer and hang in turn", 1500, 2, func(int) behaviour { return inTurn(well, hanging) }},
		{"1500 fail and hang in turn", 1500, 2, func(int) behaviour { return inTurn(failing, hanging) }},
		{"1500 answer after 9 s", 1500, 4, same(after(9*time.Second, healthy))},
		{"1500 refuse", 1500, 20, same(refusing)},
		{"1500 begin to hang", 1500, 2, func(int) behaviour { return changing(time.Now().Add(9*time.Second), well, hanging) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			simulate(t, Config{}, func(s *simulation) { besideACrowd(s, s.crowd(test.n, test.crowd), test.every) })
		})
	}
}

// besideACrowd runs for half a minute.
func besideACrowd(s *simulation, c crowd, every int) {
	began := time.Now()
	bad, back := began.Add(8*time.Second), began.Add(12*time.Second)
	known := s.probe("known", well)
	flaky := s.probe("flaky", once(bad, failing))
	late := s.probe("late", once(bad, hanging))
	recovered := s.probe("recovered", changing(back, failing, well))
	returned := s.probe("returned", changing(back, hanging, well))
	var newcomers []*probe
	for _, p := range []*probe{known, flaky, late} {
		s.events(p.account, 10, 10*time.Millisecond) // prove themselves
	}
	for round := range 60 {
		if round%every == 0 {
			c.fire()
		}
		if round >= 6 {
			s.fire(known)
			s.fire(flaky)
			s.fire(late)
		}
		// Beside tries that hang still there is room for one at a time alone.
		for p, from := range map[*probe]int{recovered: 28, returned: 48} {
			if round >= from {
				s.fire(p)
			} else if round%8 == 0 {
				s.events(p.account, 1, 0)
			}
		}
		if round%10 == 6 {
			newcomers = append(newcomers, s.probe(fmt.Sprintf("new%d", round), well))
		}
		for _, p := range newcomers {
			s.fire(p)
		}
		sleep(s.Context(), 500*time.Millisecond)
	}
	sleep(s.Context(), waitMost)
	for _, p := range append(newcomers, known, flaky, late, recovered, returned) {
		s.check(p, waitMost)
	}
}

// Where many new endpoints hang, the new ones that are well do not wait for them, whether
// of the same accounts or of others. 20 accounts a second begin, with 100 endpoints each.
func TestSimulatedNewBesideNewThatHang(t *testing.T) {
	for _, test := range []struct {
		accounts, hang int // and how many of an account's endpoints hang
	}{{1, 90}, {5, 90}, {200, 20}} {
		t.Run(fmt.Sprintf("%d of 100 hang in %d accounts", test.hang, test.accounts), func(t *testing.T) {
			simulate(t, Config{}, func(s *simulation) {
				c := s.crowd(100*test.accounts, func(nth int) behaviour {
					if nth%100 < test.hang {
						return hanging
					}
					return well
				})
				fired := map[string]time.Time{}
				for _, a := range c.accounts {
					for event, at := range s.events(a, 1, 50*time.Millisecond) {
						fired[event] = at
					}
				}
				sleep(s.Context(), waitMost)
				s.mu.Lock()
				defer s.mu.Unlock()
				var answered int
				var worst time.Duration
				for _, sent := range s.sent {
					if sent.ok {
						answered++
						worst = max(worst, sent.at.Sub(fired[sent.event]))
					}
				}
				want := test.accounts * (100 - test.hang)
				t.Logf("%d deliveries came, the last after %v", answered, worst)
				if answered != want || worst > waitMost {
					t.Errorf("%d deliveries came, want %d; worst latency %v", answered, want, worst)
				}
			})
		})
	}
}

// A process that starts with thousands of endpoints that have hung for long, and a
// backlog for all, works off what is for the others at once.
func TestSimulatedRestartBesideHanging(t *testing.T) {
	simulate(t, Config{}, func(s *simulation) {
		c := s.crowd(3000, func(int) behaviour { return hanging })
		var backlogs []*probe
		for i := range 50 {
			backlogs = append(backlogs, s.probe(fmt.Sprintf("well%d", i), well))
		}
		c.fire()
		sleep(s.Context(), 2*time.Minute)
		stopped, cancel := context.WithCancel(s.Context())
		cancel()
		must(s.T, s.fixture.sender.Stop(stopped))
		for range 3 {
			c.fire()
		}
		for range 20 {
			for _, p := range backlogs {
				s.fire(p)
			}
		}
		began := time.Now()
		s.fixture.sender = startSender(s.T, s.fixture.db, Config{transport: s.fakeEndpoints})
		sleep(s.Context(), waitMost)
		for _, p := range backlogs {
			for event := range p.fired {
				p.fired[event] = began
			}
			s.check(p, waitMost)
		}
	})
}
