package webhook

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
)

// readsCounted counts the reads of endpoints, each of which takes so long.
type readsCounted struct {
	Store
	takes time.Duration
	reads atomic.Int64
}

func (r *readsCounted) Endpoints(ctx context.Context, ids []string) (map[string]deliveries.Endpoint, error) {
	r.reads.Add(1)
	if !sleep(ctx, r.takes) {
		return nil, ctx.Err()
	}
	return r.Store.Endpoints(ctx, ids)
}

// TestEndpointsAreReadTogether: endpoints that are busy at different moments are read
// together, and, where no other process can change them, hardly ever.
func TestEndpointsAreReadTogether(t *testing.T) {
	const endpoints, events, apart = 20, 80, 3 * time.Millisecond
	for _, test := range []struct {
		age, takes time.Duration
		most       int64 // one by one, there would be 20 each 6 ms with an age of 10 ms
	}{
		{10 * time.Millisecond, 0, 300},
		{10 * time.Millisecond, 4 * time.Millisecond, events * apart.Milliseconds() / 4}, // one after the other
		{0, 0, endpoints},
	} {
		path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, path)
			counted := &readsCounted{Store: s.fixture.db, takes: test.takes}
			var accounts []string
			for i := range endpoints {
				a := s.liveAccount()
				accounts = append(accounts, a.ID)
				s.endpoint(a.ID, fmt.Sprintf("%d.example.com", i), func(*http.Request) (int, http.Header, error) { return 200, nil, nil })
			}
			sender := startSender(t, s.fixture.db, Config{Store: counted, EndpointAge: test.age, transport: s.fakeEndpoints})
			for range events {
				for _, a := range accounts {
					fire(t, s.fixture.db, a)
					sleep(t.Context(), apart/endpoints)
				}
			}
			sleep(t.Context(), time.Second)
			synctest.Wait()
			if n := sender.Stats().Delivered; n != endpoints*events {
				t.Errorf("%d delivered, want %d", n, endpoints*events)
			}
			if n := counted.reads.Load(); n > test.most {
				t.Errorf("age %v, %v a read: endpoints were read %d times, want at most %d", test.age, test.takes, n, test.most)
			} else {
				t.Logf("age %v, %v a read: endpoints were read %d times", test.age, test.takes, n)
			}
		})
	}
}

// slowDatabase is one whose answers each take so long to come.
type slowDatabase struct {
	*central.DB
	takes  time.Duration
	claims bool // deliveries are claimed after they are written
}

func (s *slowDatabase) SetClaimer(c *deliveries.Claimer) error {
	if c != nil && s.claims {
		return nil
	}
	if c != nil {
		claimed := c.Claimed
		c.Claimed = func(claims []deliveries.Claim) {
			for i := range claims {
				claims[i].CreatedAt = claims[i].CreatedAt.Add(-s.takes)
			}
			claimed(claims)
		}
	}
	return s.DB.SetClaimer(c)
}

func (s *slowDatabase) ClaimDeliveries(ctx context.Context, r deliveries.ClaimRequest) ([]deliveries.Claim, []string, error) {
	defer sleep(ctx, s.takes)
	return s.DB.ClaimDeliveries(ctx, r)
}

func (s *slowDatabase) Endpoints(ctx context.Context, ids []string) (map[string]deliveries.Endpoint, error) {
	defer sleep(ctx, s.takes)
	return s.DB.Endpoints(ctx, ids)
}

// TestSlowDatabase: where each answer of the database comes later than the age that a
// reading of an endpoint may have, deliveries are made nevertheless, and a revocation that
// comes while an endpoint is read holds.
func TestSlowDatabase(t *testing.T) {
	const events = 80
	for _, takes := range []time.Duration{15 * time.Millisecond, 200 * time.Millisecond} {
		for _, claims := range []bool{false, true} {
			path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
			t.Run(fmt.Sprintf("%v, claimed afterwards: %t", takes, claims), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSimulation(t, path)
					account := s.liveAccount().ID
					sub := s.endpoint(account, "a.example.com", func(q *http.Request) (int, http.Header, error) {
						sleep(q.Context(), 100*time.Millisecond)
						return 200, nil, nil
					})
					log := &bytes.Buffer{}
					sender := startSender(t, s.fixture.db, Config{
						Store:       &slowDatabase{s.fixture.db, takes, claims},
						EndpointAge: 10 * time.Millisecond, transport: s.fakeEndpoints,
						Log: slog.New(slog.NewTextHandler(log, nil)),
					})
					wakeOnCommit(s.fixture.db, sender)
					for range events {
						fire(t, s.fixture.db, account)
						sleep(t.Context(), 10*time.Millisecond)
					}
					sleep(t.Context(), 5*time.Second)
					synctest.Wait()
					if n := sender.Stats().Delivered; n != events {
						t.Errorf("%d delivered, want %d", n, events)
					}
					if n := strings.Count(log.String(), "reading webhook endpoints is slow"); n > 1 || (n == 1) != (takes >= slowRead) {
						t.Errorf("the log tells %d times of reads that take %v:\n%s", n, takes, log)
					}
					for range events {
						fire(t, s.fixture.db, account)
					}
					_, err := s.fixture.db.RevokeSubscription(t.Context(), account, sub.ID)
					must(t, err)
					revoked := time.Now()
					sleep(t.Context(), 3*time.Second)
					synctest.Wait()
					for _, sent := range s.to("a.example.com") {
						if sent.at.After(revoked) {
							t.Errorf("one is sent %v after the revocation", sent.at.Sub(revoked))
						}
					}
				})
			})
		}
	}
}

// firstReadHangs hangs in the first read of endpoints, as where a connection is lost. What
// is read with an event is old when it is committed, so that all have to be read again.
type firstReadHangs struct {
	*central.DB
	reads atomic.Int64
}

func (f *firstReadHangs) SetClaimer(c *deliveries.Claimer) error {
	if c != nil {
		claimed := c.Claimed
		c.Claimed = func(claims []deliveries.Claim) {
			f.EndpointsChanged()
			claimed(claims)
		}
	}
	return f.DB.SetClaimer(c)
}

func (f *firstReadHangs) Endpoints(ctx context.Context, ids []string) (map[string]deliveries.Endpoint, error) {
	if f.reads.Add(1) == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.DB.Endpoints(ctx, ids)
}

// TestReadOfEndpointsThatHangs: one that hangs holds up the endpoints that it was to read,
// and others no longer than what was read may be old.
func TestReadOfEndpointsThatHangs(t *testing.T) {
	const age = 10 * time.Millisecond
	path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, path)
		var accounts []string
		for i := range 2 {
			a := s.liveAccount()
			accounts = append(accounts, a.ID)
			s.endpoint(a.ID, fmt.Sprintf("%d.example.com", i), func(*http.Request) (int, http.Header, error) { return 200, nil, nil })
		}
		hangs := &firstReadHangs{DB: s.fixture.db}
		sender := startSender(t, s.fixture.db, Config{Store: hangs, EndpointAge: age, transport: s.fakeEndpoints})
		for _, a := range accounts {
			fire(t, s.fixture.db, a)
			synctest.Wait()
		}
		if n := hangs.reads.Load(); n != 1 {
			t.Errorf("%d reads at a time, want 1", n)
		}
		sleep(t.Context(), age)
		synctest.Wait()
		if n := sender.Stats().Delivered; n != 1 {
			t.Errorf("%d delivered while a read hangs, want 1", n)
		}
	})
}

// overtakenRead makes the first read of endpoints while the account is being set up again,
// and returns it once that is over and another event has come.
type overtakenRead struct {
	*firstReadHangs
	overtake func(read func())
}

func (o *overtakenRead) Endpoints(ctx context.Context, ids []string) (all map[string]deliveries.Endpoint, err error) {
	read := func() { all, err = o.DB.Endpoints(ctx, ids) }
	if o.reads.Add(1) == 1 {
		o.overtake(read)
	} else {
		read()
	}
	return all, err
}

// TestReadOfAnEndpointThatIsOvertaken: what a read says of an endpoint that has changed
// since cancels nothing.
func TestReadOfAnEndpointThatIsOvertaken(t *testing.T) {
	path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, path)
		account := s.liveAccount()
		s.endpoint(account.ID, "a.example.com", func(*http.Request) (int, http.Header, error) { return 200, nil, nil })
		overtaken := &overtakenRead{firstReadHangs: &firstReadHangs{DB: s.fixture.db}}
		var later string
		overtaken.overtake = func(read func()) {
			s.setMode(account.ID, store.ModeSetup)
			read()
			s.setMode(account.ID, store.ModeLive)
			later = fire(t, s.fixture.db, account.ID)
		}
		startSender(t, s.fixture.db, Config{Store: overtaken, EndpointAge: 10 * time.Millisecond, transport: s.fakeEndpoints})
		fire(t, s.fixture.db, account.ID)
		sleep(t.Context(), time.Second)
		synctest.Wait()
		all, _, err := s.fixture.db.Deliveries(t.Context(), deliveries.Filter{AccountID: account.ID}, store.Page{Limit: 10})
		must(t, err)
		for _, d := range all {
			if d.EventID == later && d.State != store.StateDelivered {
				t.Errorf("the delivery of an event that came when the account was live again is %s", d.State)
			}
		}
		if later == "" || len(all) != 2 {
			t.Errorf("%d deliveries, the read was made: %t", len(all), later != "")
		}
	})
}

// TestEventOfAnAccountThatIsLiveAgain: what was read of an endpoint a moment ago, when its
// account was being set up, cancels nothing that comes when it is live again.
func TestEventOfAnAccountThatIsLiveAgain(t *testing.T) {
	path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, path)
		account := s.liveAccount()
		release := make(chan struct{})
		s.endpoint(account.ID, "a.example.com", func(*http.Request) (int, http.Header, error) {
			<-release
			return 200, nil, nil
		})
		sender := startSender(t, s.fixture.db, Config{transport: s.fakeEndpoints})
		for range 50 { // more than are tried at once
			fire(t, s.fixture.db, account.ID)
		}
		synctest.Wait()
		s.setMode(account.ID, store.ModeSetup)
		close(release)
		sleep(t.Context(), 100*time.Millisecond)
		synctest.Wait()
		if sender.Stats().Cancelled == 0 {
			t.Fatal("nothing is cancelled, and what waits was to be")
		}
		s.setMode(account.ID, store.ModeLive)
		later := fire(t, s.fixture.db, account.ID)
		sleep(t.Context(), time.Second)
		synctest.Wait()
		all, _, err := s.fixture.db.Deliveries(t.Context(), deliveries.Filter{AccountID: account.ID}, store.Page{Limit: 1})
		must(t, err)
		if len(all) != 1 || all[0].EventID != later || all[0].State != store.StateDelivered {
			t.Errorf("the last delivery is %+v, want that of %s, delivered", all, later)
		}
	})
}

// changedElsewhere is a database whose endpoints are all changed by other processes, which
// make all events.
type changedElsewhere struct {
	*central.DB
	reading, claiming func(do func()) // around the next call
}

func (c *changedElsewhere) EndpointsVersion() uint64 { return 0 }

func (c *changedElsewhere) SetClaimer(*deliveries.Claimer) error { return nil }

// around calls hook once, where there is one, with what it has to call.
func around(hook *func(do func()), do func()) {
	if now := *hook; now != nil {
		*hook = nil
		now(do)
		return
	}
	do()
}

func (c *changedElsewhere) Endpoints(ctx context.Context, ids []string) (all map[string]deliveries.Endpoint, err error) {
	around(&c.reading, func() { all, err = c.DB.Endpoints(ctx, ids) })
	return all, err
}

func (c *changedElsewhere) ClaimDeliveries(ctx context.Context, r deliveries.ClaimRequest) (claims []deliveries.Claim, more []string, err error) {
	around(&c.claiming, func() { claims, more, err = c.DB.ClaimDeliveries(ctx, r) })
	return claims, more, err
}

// TestEventOfAnAccountThatAnotherProcessMadeLive: what was read of an endpoint when its account
// was being set up cancels nothing that was made after another process made the account live.
func TestEventOfAnAccountThatAnotherProcessMadeLive(t *testing.T) {
	type outage struct { // of the account
		*simulation
		db      *changedElsewhere
		account string
		answer  func() // to the first event, after which the endpoint is read for the second
	}
	for name, test := range map[string]struct {
		cancelled int64
		run       func(o outage) (later string)
	}{
		"claimed after it was read": {1, func(o outage) string {
			o.setMode(o.account, store.ModeSetup)
			o.answer()
			sleep(o.Context(), time.Millisecond)
			o.setMode(o.account, store.ModeLive)
			return o.fixture.fire()
		}},
		"claimed while it is read": {0, func(o outage) (later string) {
			o.db.reading = func(read func()) {
				o.setMode(o.account, store.ModeSetup)
				read()
				sleep(o.Context(), time.Millisecond)
				o.setMode(o.account, store.ModeLive)
				later = o.fixture.fire()
				sleep(o.Context(), 2*time.Second)
			}
			o.answer()
			sleep(o.Context(), 3*time.Second)
			return later
		}},
		"read while it is claimed": {2, func(o outage) (later string) {
			o.db.claiming = func(claim func()) {
				sleep(o.Context(), time.Millisecond)
				o.setMode(o.account, store.ModeSetup)
				o.answer()
				sleep(o.Context(), time.Millisecond)
				o.setMode(o.account, store.ModeLive)
				later = o.fixture.fire()
				claim()
			}
			o.fixture.fire()
			sleep(o.Context(), 2*time.Second)
			return later
		}},
	} {
		path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, path)
				s.fixture.account = s.liveAccount().ID
				answered := make(chan struct{})
				s.endpoint(s.fixture.account, "a.example.com", func(*http.Request) (int, http.Header, error) {
					<-answered
					return 200, nil, nil
				})
				db := &changedElsewhere{DB: s.fixture.db}
				s.fixture.sender = startSender(t, s.fixture.db, Config{
					Store: db, EndpointAge: 500 * time.Millisecond, PerEndpoint: 1, SlowAfter: time.Minute, transport: s.fakeEndpoints,
				})
				wakeOnCommit(s.fixture.db, s.fixture.sender)
				s.fixture.fire()
				s.fixture.fire()
				sleep(t.Context(), 2*time.Second)
				later := test.run(outage{s, db, s.fixture.account, func() { close(answered) }})
				sleep(t.Context(), 3*time.Second)
				synctest.Wait()
				all := s.fixture.deliveries(deliveries.Filter{EventID: later})
				if len(all) != 1 || all[0].State != store.StateDelivered {
					t.Errorf("the deliveries of an event that came when the account was live again are %+v", all)
				}
				if n := s.fixture.sender.Stats().Cancelled; n != test.cancelled {
					t.Errorf("%d are cancelled, want %d", n, test.cancelled)
				}
			})
		})
	}
}

// TestReadByAClockAhead: what was read by a database whose clock is ahead, or was put back
// since, counts as read now. Its lease ends no later, and the next reading of its endpoint is
// taken in.
func TestReadByAClockAhead(t *testing.T) {
	c := Config{Lease: time.Minute, Window: windowFirst, PerEndpoint: 1, HoldMost: 1}
	s := &Sender{
		c: c, lanes: newLanes(&c), queues: make(map[string]*queue), accounts: make(map[string]*account), held: make(map[string]struct{}),
	}
	now := time.Now()
	s.hold(deliveries.Claim{
		Delivery: store.Delivery{ID: "dlv_1", SubscriptionID: "whs_1", AccountID: "acc_1"},
		Endpoint: deliveries.Endpoint{TargetURL: "https://example.com/", Deliverable: true},
	}, now.Add(time.Hour), 1, now)
	q := s.queues["whs_1"]
	if until := q.items.first().until; !until.Equal(now.Add(c.Lease)) {
		t.Errorf("it is held for %v, want %v", until.Sub(now), c.Lease)
	}
	q.endpoint.set(deliveries.Endpoint{TargetURL: "https://example.com/"}, now.Add(time.Second), now.Add(time.Second), 1)
	if q.endpoint.deliverable {
		t.Error("a later reading of the endpoint is not taken in")
	}
}

// TestReadingsInAnyOrder: of two readings the one that knows more counts, and the other one,
// where it ends later, shows that it can still be used. Otherwise a stream of events could
// overtake each read of a slow database.
func TestReadingsInAnyOrder(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, test := range map[string]struct {
		began, ended, version int
		target                string
		heard                 int
	}{
		"earlier":                {10, 50, 1, "https://first.example.com/", 50},
		"later":                  {30, 50, 1, "https://second.example.com/", 50},
		"of an earlier version":  {30, 50, 0, "https://first.example.com/", 40},
		"earlier, but of a next": {10, 50, 2, "https://second.example.com/", 50},
	} {
		t.Run(name, func(t *testing.T) {
			var e endpoint
			e.set(deliveries.Endpoint{TargetURL: "https://first.example.com/"}, at(20), at(40), 1)
			e.set(deliveries.Endpoint{TargetURL: "https://second.example.com/"}, at(test.began), at(test.ended), uint64(test.version))
			if e.target.raw != test.target || !e.heardAt.Equal(at(test.heard)) {
				t.Errorf("%s, heard after %v, want %s after %d ms", e.target.raw, e.heardAt.Sub(start), test.target, test.heard)
			}
		})
	}
}
