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

func TestTrafficCounter(t *testing.T) {
	var counted TrafficCounter
	for _, one := range []struct {
		status int
		took   time.Duration
	}{{200, 0}, {429, time.Millisecond}, {404, time.Millisecond}, {500, time.Second}, {503, time.Hour}} {
		counted.Add(one.status, one.took)
	}
	got := counted.Sum()
	if got.Requests != 5 || got.Errors != 2 || got.Limited != 1 || len(got.Latency) != LatencyBuckets {
		t.Errorf("%+v", got)
	}
	for bucket, want := range map[int]uint64{
		0: 1, LatencyBucket(time.Millisecond): 2, LatencyBucket(time.Second): 1, LatencyBuckets - 1: 1,
	} {
		if got.Latency[bucket] != want {
			t.Errorf("bucket %d holds %d, want %d", bucket, got.Latency[bucket], want)
		}
	}
}
