package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
)

// state waits until the only delivery of an event is in a state.
func (f *fixture) state(event string, want store.State) store.Delivery {
	f.t.Helper()
	var d []store.Delivery
	until(f.t, "delivery is "+string(want), func() bool {
		d = f.deliveries(deliveries.Filter{EventID: event})
		return len(d) == 1 && d[0].State == want
	})
	return d[0]
}

func (f *fixture) tries(d store.Delivery) []store.Attempt {
	f.t.Helper()
	tries, err := f.db.Attempts(f.t.Context(), d.ID)
	must(f.t, err)
	return tries
}

// What waits when a subscription is revoked, or its account leaves live mode, is not sent:
// in the second case not until the account is live again, and an operator retries it.
func TestQueuedIsCancelled(t *testing.T) {
	setup, live := store.ModeSetup, store.ModeLive
	for name, end := range map[string]func(*fixture, store.Subscription) error{
		"revoked": func(f *fixture, s store.Subscription) error {
			_, err := f.db.RevokeSubscription(f.t.Context(), f.account, s.ID)
			return err
		},
		"account in setup": func(f *fixture, _ store.Subscription) error {
			_, _, err := f.db.UpdateAccount(f.t.Context(), f.account, central.AccountPatch{Mode: &setup})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, url string) {
				started, finish := make(chan struct{}), make(chan struct{})
				var first atomic.Bool
				endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
					if first.CompareAndSwap(false, true) {
						close(started)
						<-finish
					}
				})
				// The first try may last for as long as a slow machine needs to fire the others.
				f := newFixture(t, url, Config{
					CAFile: caFile(t, endpoint), PerEndpoint: 1, HoldMost: time.Hour, Timeout: time.Hour, SlowAfter: time.Hour, Lease: 3 * time.Hour,
				})
				sub := f.subscribe(endpoint.URL)
				under := f.fire()
				<-started
				waiting := []string{f.fire(), f.fire(), f.fire()} // in memory, behind the first
				until(t, "all in memory", func() bool { return f.sender.Stats().Held == 4 })
				must(t, end(f, sub))
				close(finish)
				for _, event := range waiting {
					if d := f.state(event, store.StateCancelled); d.Attempts != 0 {
						t.Errorf("%d tries", d.Attempts)
					}
				}
				until(t, "the try under way is logged", func() bool {
					d := f.deliveries(deliveries.Filter{EventID: under})[0]
					return len(f.tries(d)) == 1
				})
				if n := endpoint.count(); n != 1 {
					t.Errorf("%d requests, want the one that was under way", n)
				}
				_, _, err := f.db.UpdateAccount(t.Context(), f.account, central.AccountPatch{Mode: &live})
				must(t, err)
				_, err = f.db.RetryDelivery(t.Context(), f.state(waiting[0], store.StateCancelled).ID)
				if name == "revoked" {
					if !errors.Is(err, store.ErrConflict) {
						t.Errorf("a retry for a revoked subscription: %v", err)
					}
					return
				}
				must(t, err)
				f.state(waiting[0], store.StateDelivered)
				f.state(waiting[1], store.StateCancelled)
			})
		})
	}
}

// Only live subscriptions that name the type, of a live account, get anything.
func TestWhoReceives(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		endpoint := newReceiver(t, nil)
		f := newFixture(t, url, Config{CAFile: caFile(t, endpoint)})
		wanted := f.subscribe(endpoint.URL + "/wanted")
		sandbox := subscription(f.account, endpoint.URL+"/sandbox")
		sandbox.Environment = store.Test
		must(t, f.db.AddSubscription(t.Context(), sandbox))
		other := subscription(f.account, endpoint.URL+"/other")
		other.Events = []string{store.EventGoalChanged}
		must(t, f.db.AddSubscription(t.Context(), other))
		setup, err := f.db.CreateAccount(t.Context(), store.Account{Name: "S", Agent: store.Agent{Email: "s@example.com", FullName: "S"}})
		must(t, err)
		must(t, f.db.AddSubscription(t.Context(), subscription(setup.ID, endpoint.URL+"/setup")))
		silenced := fire(t, f.db, setup.ID)
		event := f.fire()
		f.state(event, store.StateDelivered)
		if d := f.deliveries(deliveries.Filter{EventID: silenced}); len(d) != 0 {
			t.Errorf("silenced event has %d deliveries", len(d))
		}
		got := endpoint.all()
		if len(got) != 1 {
			t.Fatalf("%d requests, want 1", len(got))
		}
		verified(t, got[0], wanted.Secret)
	})
}

// A sender that allows nothing refuses loopback, by address and by name, and
// says so in the log; proxies of the environment are not asked.
func TestRefusedAtDelivery(t *testing.T) {
	proxied := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { proxied <- q.Method + " " + q.Host }))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	endpoint := newReceiver(t, nil)
	dns := newDNS(t)
	dns.set("inside.example.com", "127.0.0.1")
	dns.set("mapped.example.com", "::ffff:127.0.0.1")
	port := endpoint.URL[strings.LastIndexByte(endpoint.URL, ':'):]
	f := newFixture(t, t.TempDir()+"/origin.db", Config{
		CAFile: caFile(t, endpoint), Schedule: []time.Duration{},
		Guard: NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute}),
	})
	targets := map[string]string{}
	for _, target := range []string{
		endpoint.URL, "https://inside.example.com" + port, "https://mapped.example.com" + port, "https://[::1]" + port,
		"https://localhost" + port, "https://169.254.169.254/", "https://[fe80::1%25lo]" + port, "https://8.8.8.8:22/",
		"https://u:p@8.8.8.8/", "http://8.8.8.8/",
	} {
		targets[f.subscribe(target).ID] = target
	}
	event := f.fire()
	until(t, "all refused", func() bool {
		d := f.deliveries(deliveries.Filter{EventID: event})
		for _, one := range d {
			if one.State != store.StateDead {
				return false
			}
		}
		return len(d) == len(targets)
	})
	for _, d := range f.deliveries(deliveries.Filter{EventID: event}) {
		tries := f.tries(d)
		if len(tries) != 1 || tries[0].Status != 0 || !strings.HasPrefix(tries[0].Error, "refused by guard: ") {
			t.Errorf("%s: %+v", targets[d.SubscriptionID], tries)
		}
	}
	if endpoint.count() != 0 || len(proxied) != 0 {
		t.Errorf("%d requests arrived, %d at the proxy", endpoint.count(), len(proxied))
	}
}
