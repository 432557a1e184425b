//go:build unix

package wasi

import (
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
			if ready := c.awaitAny(nil, d); len(ready) != 0 {
				t.Errorf("%d sockets are ready, of none", len(ready))
			}
			if waited := time.Since(start); waited < d {
				t.Errorf("waited %v, want %v", waited, d)
			}
		}
	}
}
