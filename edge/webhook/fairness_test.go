package webhook

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// These tests run the whole sender over SQLite with a clock that jumps to the
// next thing to happen, and endpoints that are functions.

// fakeEndpoints is a transport to endpoints by host, and what they were sent.
type fakeEndpoints struct {
	mu        sync.Mutex
	endpoints map[string]behaviour
	sent      []sentRequest
	underWay  map[string]int
	most      map[string]int
}

type behaviour func(*http.Request) (status int, header http.Header, err error)

type sentRequest struct {
	host, event string
	at          time.Time
	end         time.Time
	ok          bool // it was answered well
}

func (w *fakeEndpoints) RoundTrip(q *http.Request) (*http.Response, error) {
	host, at := q.URL.Host, time.Now()
	w.mu.Lock()
	answer := w.endpoints[host]
	w.underWay[host]++
	w.most[host] = max(w.most[host], w.underWay[host])
	w.mu.Unlock()
	status, header, err := answer(q)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay[host]--
	w.sent = append(w.sent, sentRequest{host, q.Header.Get("X-Svc-Event-Id"), at, time.Now(), err == nil && status == 200})
	if err != nil {
		return nil, err
	}
	var body io.Reader = strings.NewReader("ok")
	if drips, err := time.ParseDuration(header.Get("Drips")); err == nil {
		body = drip{q.Context(), drips}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}, nil
}

// drip is a body that gives one byte in each interval, until ctx ends.
type drip struct {
	ctx   context.Context
	every time.Duration
}

func (d drip) Read(b []byte) (int, error) {
	if !sleep(d.ctx, d.every) {
		return 0, d.ctx.Err()
	}
	b[0] = '.'
	return 1, nil
}

// to lists what was sent to a host, by start.
func (w *fakeEndpoints) to(host string) []sentRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []sentRequest
	for _, s := range w.sent {
		if s.host == host {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b sentRequest) int { return a.at.Compare(b.at) })
	return all
}

// simulate runs a test in a bubble of its own time, beside others.
func simulate(t *testing.T, c Config, test func(*simulation)) {
	t.Parallel()
	path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{T: t, fakeEndpoints: &fakeEndpoints{endpoints: map[string]behaviour{}, underWay: map[string]int{}, most: map[string]int{}}}
		c.transport = s.fakeEndpoints
		c.EndpointAge = cmp.Or(c.EndpointAge, 10*time.Millisecond) // as where processes share the database
		s.fixture = newFixture(t, path, c)
		test(s)
	})
}

type simulation struct {
	*testing.T
	*fakeEndpoints
	fixture *fixture
}

// newSimulation has a database, and no sender yet.
func newSimulation(t *testing.T, path string) *simulation {
	return &simulation{
		T: t, fixture: &fixture{t: t, db: openDB(t, path)},
		fakeEndpoints: &fakeEndpoints{endpoints: map[string]behaviour{}, underWay: map[string]int{}, most: map[string]int{}},
	}
}

func (s *simulation) liveAccount() store.Account {
	s.Helper()
	a, err := s.fixture.db.CreateAccount(s.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	must(s.T, err)
	return a
}

func (s *simulation) setMode(account string, m store.Mode) {
	s.Helper()
	_, _, err := s.fixture.db.UpdateAccount(s.Context(), account, central.AccountPatch{Mode: &m})
	must(s.T, err)
}

// endpoint adds a subscription whose host answers so.
func (s *simulation) endpoint(account, host string, e behaviour) store.Subscription {
	s.Helper()
	s.mu.Lock()
	s.endpoints[host] = e
	s.mu.Unlock()
	sub := subscription(account, "https://"+host+"/hook")
	must(s.T, s.fixture.db.AddSubscription(s.Context(), sub))
	return sub
}

// events fires n events, apart from each other, and returns when each was.
func (s *simulation) events(account string, n int, apart time.Duration) map[string]time.Time {
	s.Helper()
	at := map[string]time.Time{}
	for range n {
		at[fire(s.T, s.fixture.db, account)] = time.Now()
		if apart > 0 {
			sleep(context.Background(), apart)
		}
	}
	return at
}

// latencies of first tries, sorted.
func (s *simulation) latencies(host string, fired map[string]time.Time) []time.Duration {
	s.Helper()
	var all []time.Duration
	seen := map[string]bool{}
	for _, sent := range s.to(host) {
		if at, ok := fired[sent.event]; ok && !seen[sent.event] {
			seen[sent.event] = true
			all = append(all, sent.at.Sub(at))
		}
	}
	if len(all) != len(fired) {
		s.Fatalf("%s got %d of %d events", host, len(all), len(fired))
	}
	slices.Sort(all)
	return all
}

// Retry-After puts a delivery off, no other one, for ten minutes at most.
func TestRetryAfterIsHonoured(t *testing.T) {
	for header, want := range map[string]time.Duration{"60": time.Minute, "86400": 10 * time.Minute, "-5": 5 * time.Second} {
		t.Run(header, func(t *testing.T) {
			simulate(t, Config{Jitter: -1}, func(s *simulation) { retryAfter(s, header, want) })
		})
	}
}

// retryAfter has an endpoint answer its first request with a Retry-After, after which the
// same event is to come again.
func retryAfter(s *simulation, header string, want time.Duration) {
	first := true
	s.endpoint(s.fixture.account, "a.example.com", func(*http.Request) (int, http.Header, error) {
		if first {
			first = false
			return 429, http.Header{"Retry-After": {header}}, nil
		}
		return 200, nil, nil
	})
	fired := s.events(s.fixture.account, 1, time.Second)
	other := s.events(s.fixture.account, 1, 0)
	sleep(s.Context(), 11*time.Minute)
	if l := s.latencies("a.example.com", other); l[0] > 4*time.Second {
		s.Errorf("another delivery came after %v", l[0])
	}
	var at []time.Time
	for _, sent := range s.to("a.example.com") {
		if _, ok := fired[sent.event]; ok {
			at = append(at, sent.at)
		}
	}
	if len(at) != 2 || at[1].Sub(at[0]) < want || at[1].Sub(at[0]) > want+4*time.Second {
		s.Errorf("tries at %v, want %v between", at, want)
	}
}
