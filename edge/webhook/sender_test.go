package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

func TestDelivery(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("thanks")) })
		f := newFixture(t, url, Config{CAFile: caFile(t, endpoint)})
		sub := f.subscribe(endpoint.URL + "/hook?a=b")
		event := f.fire()
		until(t, "delivery", func() bool { return endpoint.count() == 1 })

		got := endpoint.all()[0]
		verified(t, got, sub.Secret)
		var envelope struct {
			ID, Type  string
			AccountID string `json:"account_id"`
		}
		must(t, json.Unmarshal(got.body, &envelope))
		if envelope.ID != event || envelope.AccountID != f.account {
			t.Errorf("envelope %s", got.body)
		}
		for name, want := range map[string]string{
			"X-Svc-Event": store.EventSentinelFired, "X-Svc-Event-Id": event, "Content-Type": "application/json", "User-Agent": userAgent,
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
			}
		}
		if _, err := strconv.ParseInt(got.header.Get("X-Svc-Timestamp"), 10, 64); err != nil {
			t.Error(err)
		}
		until(t, "outcome", func() bool {
			d := f.deliveries(deliveries.Filter{SubscriptionID: sub.ID})
			return len(d) == 1 && d[0].State == store.StateDelivered && d[0].Attempts == 1
		})
		d := f.deliveries(deliveries.Filter{EventID: event})[0]
		tries, err := f.db.Attempts(t.Context(), d.ID)
		must(t, err)
		a := tries[0]
		if a.ID != got.header.Get("X-Svc-Delivery-Id") || a.Status != 200 || a.Excerpt != "thanks" || a.Error != "" || a.Latency <= 0 {
			t.Errorf("attempt %+v", a)
		}
		if a.Headers["x-svc-signature"] != got.header.Get("X-Svc-Signature") {
			t.Errorf("headers %v", a.Headers)
		}
		if s, _ := f.db.Subscription(t.Context(), sub.ID); !s.FailingFrom.IsZero() {
			t.Errorf("failing from %v", s.FailingFrom)
		}
	})
}

func TestRetriesUntilDead(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) })
		f := newFixture(t, url, Config{CAFile: caFile(t, endpoint), Schedule: []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}})
		sub := f.subscribe(endpoint.URL)
		event := f.fire()
		until(t, "the last try", func() bool {
			d := f.deliveries(deliveries.Filter{EventID: event})
			return len(d) == 1 && d[0].State == store.StateDead
		})
		got := endpoint.all()
		if len(got) != 4 {
			t.Fatalf("%d tries, want 4", len(got))
		}
		ids := map[string]bool{}
		for i, g := range got {
			verified(t, g, sub.Secret)
			ids[g.header.Get("X-Svc-Delivery-Id")] = true
			if g.header.Get("X-Svc-Event-Id") != event {
				t.Errorf("try %d: event %s", i, g.header.Get("X-Svc-Event-Id"))
			}
		}
		if len(ids) != 4 {
			t.Errorf("delivery ids repeat: %v", ids)
		}
		if s, _ := f.db.Subscription(t.Context(), sub.ID); s.FailingFrom.IsZero() || !s.RevokedAt.IsZero() {
			t.Errorf("subscription %v %v", s.FailingFrom, s.RevokedAt)
		}
	})
}

// While a secret is rotated, both sign: a receiver that knows either is served.
func TestRotatedSecret(t *testing.T) {
	endpoint := newReceiver(t, nil)
	f := newFixture(t, t.TempDir()+"/origin.db", Config{CAFile: caFile(t, endpoint)})
	sub := f.subscribe(endpoint.URL)
	f.fire()
	until(t, "delivery", func() bool { return endpoint.count() == 1 })
	fresh := strings.Repeat("0123456789abcdef", 4)
	_, err := f.db.RotateSecret(t.Context(), sub.ID, fresh, time.Now().Add(time.Hour))
	must(t, err)
	f.fire()
	until(t, "delivery", func() bool { return endpoint.count() == 2 })
	got := endpoint.all()
	verified(t, got[0], sub.Secret)
	verified(t, got[1], sub.Secret)
	verified(t, got[1], fresh)
	if n := strings.Count(got[1].header.Get(signature.Header), "v1="); n != 2 {
		t.Errorf("%d signatures", n)
	}
	if signature.Verify(got[0].header.Get(signature.Header), got[0].body, time.Minute, time.Now(), fresh) == nil {
		t.Error("the new secret signed before it was made")
	}
}

// Who looks on sees every try, and keeps nothing waiting when it does not read.
func TestTail(t *testing.T) {
	endpoint := newReceiver(t, nil)
	f := newFixture(t, t.TempDir()+"/origin.db", Config{CAFile: caFile(t, endpoint)})
	sub := f.subscribe(endpoint.URL)
	tries, end := f.sender.Tail()
	_, endOther := f.sender.Tail() // never read
	defer endOther()
	event := f.fire()
	select {
	case tried := <-tries:
		if tried.EventID != event || tried.SubscriptionID != sub.ID || tried.State != store.StateDelivered || tried.Attempt.Status != 200 {
			t.Errorf("saw %+v", tried)
		}
	case <-time.After(time.Minute):
		t.Fatal("saw nothing")
	}
	end()
	end()
	if _, open := <-tries; open {
		t.Error("still told after the end")
	}
	for range tailMost + 10 {
		f.fire()
	}
	until(t, "all delivered", func() bool { return endpoint.count() >= tailMost+11 })
}

// slowLeases takes a while to end leases.
type slowLeases struct {
	Store
	takes time.Duration
}

func (s slowLeases) EndLeases(ctx context.Context, owner string) (int, error) {
	if !sleep(ctx, s.takes) {
		return 0, ctx.Err()
	}
	return s.Store.EndLeases(ctx, owner)
}

// TestStopEndsLeases: Stop ends leases as long as its context lasts, and for two seconds
// when that has ended.
func TestStopEndsLeases(t *testing.T) {
	for _, test := range []struct {
		lasts, takes time.Duration
		ended        bool
	}{{time.Minute, 30 * time.Second, true}, {time.Minute, 90 * time.Second, false}, {0, time.Second, true}, {0, 3 * time.Second, false}} {
		path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
		synctest.Test(t, func(t *testing.T) {
			db := openDB(t, path)
			leases := &slowLeases{Store: db}
			s, err := Start(t.Context(), Config{Store: leases, Guard: NewGuard(GuardConfig{})})
			must(t, err)
			leases.takes = test.takes
			ctx, cancel := context.WithTimeout(t.Context(), test.lasts)
			defer cancel()
			if err := s.Stop(ctx); (err == nil) != test.ended {
				t.Errorf("leases that take %v, in a stop of %v: %v", test.takes, test.lasts, err)
			}
		})
	}
}
