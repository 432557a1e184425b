package wire

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLatencyBucket: a time lies above the bound of the bucket before its own,
// and not above that of its own.
func TestLatencyBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "took"))
		i := LatencyBucket(d)
		if i < LatencyBuckets-1 && d > LatencyBound(i)+time.Nanosecond {
			t.Fatalf("%v is in bucket %d, which ends at %v", d, i, LatencyBound(i))
		}
		if i > 0 && d < LatencyBound(i-1)-time.Nanosecond {
			t.Fatalf("%v is in bucket %d, which begins at %v", d, i, LatencyBound(i-1))
		}
	})
}
