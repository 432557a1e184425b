package webhook

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// TestGiveUp: what was to be tried three days ago is given up if its endpoint goes on failing,
// and tried if it does not, as after an outage of the sender. What is given up can be recovered.
func TestGiveUp(t *testing.T) {
	const old = 300 // more than are held at a time
	for name, test := range map[string]struct {
		before, after, later int // what it answers, 0: nothing; later: from two minutes after the start
		givesUp              bool
	}{
		"one that hangs for a day":       {500, 0, 500, true},
		"one that fails on and is well":  {500, 500, 200, false},
		"one that failed and is well":    {500, 200, 200, false},
		"one that is well":               {200, 200, 200, false},
		"one that fails for two minutes": {200, 500, 200, false},
		"one that hangs for two minutes": {200, 0, 200, false},
	} {
		path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, path)
				s.fixture.account = s.liveAccount().ID
				var status atomic.Int64
				status.Store(int64(test.before))
				sub := s.endpoint(s.fixture.account, "a.example.com", func(r *http.Request) (int, http.Header, error) {
					if status.Load() == 0 {
						<-r.Context().Done()
						return 0, nil, r.Context().Err()
					}
					return int(status.Load()), nil, nil
				})
				start := func() *Sender { return startSender(t, s.fixture.db, Config{transport: s.fakeEndpoints}) }
				s.fixture.sender = start()
				events := []string{s.fixture.fire()}
				sleep(t.Context(), time.Second)
				must(t, s.fixture.sender.Stop(context.Background()))
				for range old {
					events = append(events, s.fixture.fire())
				}
				sleep(t.Context(), giveUpAfter+time.Minute)
				began := time.Now()
				status.Store(int64(test.after))
				s.fixture.sender = start()
				behind := func() bool {
					s.fixture.sender.mu.Lock()
					defer s.fixture.sender.mu.Unlock()
					q := s.fixture.sender.queues[sub.ID] // nil: forgotten since nothing waits
					return q != nil && !q.behindFrom.IsZero()
				}
				sleep(t.Context(), 2*time.Minute)
				synctest.Wait()
				if test.after == 0 && !behind() {
					t.Error("the sender is not behind while the endpoint hangs")
				}
				if test.givesUp { // as after a day
					s.fixture.sender.mu.Lock()
					q := s.fixture.sender.queues[sub.ID]
					q.behindFrom = q.behindFrom.Add(-giveUpBehind)
					s.fixture.sender.mu.Unlock()
				}
				status.Store(int64(test.later))
				sleep(t.Context(), 10*time.Minute)
				synctest.Wait()
				if test.later == 200 && behind() {
					t.Error("the sender is behind once all is delivered")
				}
				untried := 0
				for _, d := range s.deliveriesOf(sub, events) {
					if d.State == store.StateDead && d.Attempts == 0 {
						untried++
					} else if !test.givesUp && d.State != store.StateDelivered {
						t.Errorf("%s after %d tries", d.State, d.Attempts)
					}
				}
				if (untried > 0) != test.givesUp {
					t.Errorf("%d of %d are given up", untried, len(events))
				}
				status.Store(200)
				_, _, err := s.fixture.db.RecoverDeliveries(t.Context(), sub.ID, store.Span{Since: began.Add(-30 * 24 * time.Hour)}, "", time.Hour)
				must(t, err)
				s.fixture.sender.Wake()
				sleep(t.Context(), 10*time.Minute)
				synctest.Wait()
				for _, d := range s.deliveriesOf(sub, events) {
					if d.State != store.StateDelivered {
						t.Errorf("recovered, it is %s", d.State)
					}
				}
			})
		})
	}
}

// deliveriesOf reads what a subscription gets, which is one delivery of each of the events.
func (s *simulation) deliveriesOf(sub store.Subscription, events []string) (all []store.Delivery) {
	s.Helper()
	page := store.Page{Limit: 200}
	for {
		items, next, err := s.fixture.db.Deliveries(s.Context(), deliveries.Filter{SubscriptionID: sub.ID}, page)
		must(s.T, err)
		all = append(all, items...)
		if next == "" {
			break
		}
		page.Cursor = next
	}
	var of []string
	for _, d := range all {
		of = append(of, d.EventID)
	}
	slices.Sort(of)
	if want := slices.Sorted(slices.Values(events)); !slices.Equal(of, want) {
		s.Fatalf("the deliveries are of the events %q, want %q", of, want)
	}
	return all
}

// TestGivesUp: a late delivery is given up for what its endpoint does, and not because no
// sender ran, or because the database did not answer.
func TestGivesUp(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, test := range map[string]struct {
		due, failing, behind time.Time
		failures             int
		want                 bool
	}{
		"it fails, and is behind":                {ago(giveUpAfter), ago(time.Minute), ago(giveUpBehind), 1, true},
		"it has not been behind for long":        {ago(giveUpAfter), ago(giveUpAfter), ago(giveUpBehind - 1), 1, false},
		"it fails for days, and is not behind":   {ago(giveUpAfter), ago(giveUpAfter), time.Time{}, 1, false},
		"it is behind, and no try has failed":    {ago(giveUpAfter), ago(giveUpAfter), ago(giveUpBehind), 0, false},
		"it is behind, and its last try is well": {ago(giveUpAfter), time.Time{}, ago(giveUpBehind), 1, false},
		"it is not late":                         {ago(giveUpAfter - 1), ago(giveUpAfter), ago(giveUpAfter), 1, false},
	} {
		q := queue{health: health{failures: test.failures}, endpoint: endpoint{deliverable: true}, behindFrom: test.behind}
		c := deliveries.Claim{Endpoint: deliveries.Endpoint{FailingFrom: test.failing}}
		c.NextAt = test.due
		if got := q.givesUp(&c, now); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
