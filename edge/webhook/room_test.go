package webhook

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store/central/deliveries"
)

// claimsCounted counts the deliveries that are claimed after they were written.
type claimsCounted struct {
	Store
	claimed atomic.Int64
}

func (c *claimsCounted) ClaimDeliveries(ctx context.Context, r deliveries.ClaimRequest) ([]deliveries.Claim, []string, error) {
	claims, more, err := c.Store.ClaimDeliveries(ctx, r)
	c.claimed.Add(int64(len(claims)))
	return claims, more, err
}

// TestBurstIsHeldAsItIsWritten: deliveries that come faster than their endpoint takes them
// are held as they are written, as long as their leases last until they are tried.
func TestBurstIsHeldAsItIsWritten(t *testing.T) {
	const events, apart, takes = 1200, 4 * time.Millisecond, 80 * time.Millisecond // 250 a second, of which 100 are taken
	for _, test := range []struct {
		name  string
		lease time.Duration
		read  bool // some are claimed later
	}{{"leases that are long enough", 30 * time.Second, false}, {"leases that would end", 2 * time.Second, true}} {
		t.Run(test.name, func(t *testing.T) {
			path := schema.Copy(t, filepath.Join(t.TempDir(), "origin.db"))
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, path)
				counted := &claimsCounted{Store: s.fixture.db}
				a := s.liveAccount()
				s.endpoint(a.ID, "a.example.com", func(q *http.Request) (int, http.Header, error) {
					sleep(q.Context(), takes)
					return 200, nil, nil
				})
				sender := startSender(t, s.fixture.db, Config{Store: counted, Lease: test.lease, Timeout: time.Second, transport: s.fakeEndpoints})
				wakeOnCommit(s.fixture.db, sender)
				for range events {
					fire(t, s.fixture.db, a.ID)
					sleep(t.Context(), apart)
				}
				sleep(t.Context(), time.Minute)
				if n := sender.Stats().Delivered; n != events {
					t.Errorf("%d delivered, want %d", n, events)
				}
				if n := counted.claimed.Load(); (n > 0) != test.read {
					t.Errorf("%d of %d were claimed after they were written", n, events)
				}
			})
		})
	}
}
