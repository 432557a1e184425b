package webhook

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// A delivery that waits an hour for its next try is tried at once when an
// operator asks for it.
func TestRetryOfWhatWaits(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		var calls atomic.Int32
		endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				w.WriteHeader(503)
			}
		})
		f := newFixture(t, url, Config{CAFile: caFile(t, endpoint), Schedule: []time.Duration{time.Hour}})
		f.subscribe(endpoint.URL)
		event := f.fire()
		var d store.Delivery
		until(t, "the first try is written", func() bool {
			all := f.deliveries(deliveries.Filter{EventID: event})
			d = all[0]
			return d.Attempts == 1
		})
		for range 2 {
			_, err := f.db.RetryDelivery(t.Context(), d.ID)
			must(t, err)
		}
		until(t, "delivered", func() bool {
			return f.deliveries(deliveries.Filter{EventID: event})[0].State == store.StateDelivered
		})
		if n := len(f.tries(d)); n < 2 || n > 3 { // the second call may come after the delivery
			t.Errorf("%d tries", n)
		}
	})
}
