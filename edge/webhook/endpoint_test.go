package webhook

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// readsCounted counts the reads of endpoints.
type readsCounted struct {
	Store
	reads atomic.Int64
}

func (r *readsCounted) Endpoints(ctx context.Context, ids []string) (map[string]deliveries.Endpoint, error) {
	r.reads.Add(1)
	return r.Store.Endpoints(ctx, ids)
}

// TestEndpointsAreReadTogether: endpoints that are busy at different moments are read
// together, and, where no other process can change them, hardly ever.
func TestEndpointsAreReadTogether(t *testing.T) {
	const endpoints, events, apart = 20, 80, 3 * time.Millisecond
	for _, test := range []struct {
		age  time.Duration
		most int64 // one by one, there would be 20 each 6 ms with an age of 10 ms
	}{{10 * time.Millisecond, 300}, {0, endpoints}} {
		path := filepath.Join(t.TempDir(), "origin.db")
		synctest.Test(t, func(t *testing.T) {
			s := &simulation{T: t, fakeEndpoints: &fakeEndpoints{endpoints: map[string]behaviour{}, underWay: map[string]int{}, most: map[string]int{}}}
			s.fixture = &fixture{t: t, db: openDB(t, path)}
			counted := &readsCounted{Store: s.fixture.db}
			var accounts []string
			for i := range endpoints {
				a, err := s.fixture.db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
				must(t, err)
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
			synctest.Wait()
			if n := sender.Stats().Delivered; n != endpoints*events {
				t.Errorf("%d delivered, want %d", n, endpoints*events)
			}
			if n := counted.reads.Load(); n > test.most {
				t.Errorf("age %v: endpoints were read %d times, want at most %d", test.age, n, test.most)
			} else {
				t.Logf("age %v: endpoints were read %d times", test.age, n)
			}
		})
	}
}
