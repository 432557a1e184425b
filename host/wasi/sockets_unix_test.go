//go:build unix

package wasi

import (
	"context"
	"testing"
	"time"
)

// TestWaitIsNotCutShort: a wait for sockets that ends by its time ends no earlier.
func TestWaitIsNotCutShort(t *testing.T) {
	c := &Call{Host: testHost{t.Context()}}
	defer c.Close()
	for _, d := range []time.Duration{time.Microsecond, 900 * time.Microsecond, 3900 * time.Microsecond} {
		for range 5 {
			start := time.Now()
			if polled := c.awaitAny(nil, start.Add(d)); len(polled) != 0 {
				t.Errorf("%d sockets were polled, of none", len(polled))
			}
			if waited := time.Since(start); waited < d {
				t.Errorf("waited %v, want %v", waited, d)
			}
		}
	}
}

// TestWaitThatIsOver: a wait whose time is over before poll(2) is asked, as where the thread
// was held up, ends at once.
func TestWaitThatIsOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := &Call{Host: testHost{ctx}}
	defer c.Close()
	for _, ago := range []time.Duration{0, time.Millisecond, time.Hour} {
		c.awaitAny(nil, time.Now().Add(-ago))
	}
}
