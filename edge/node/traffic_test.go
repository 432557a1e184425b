package node

import (
	"testing"
	"time"

	"partneredge/edge/wire"
)

func TestTraffic(t *testing.T) {
	var counted traffic
	for _, one := range []struct {
		status int
		took   time.Duration
	}{{200, 0}, {429, time.Millisecond}, {404, time.Millisecond}, {500, time.Second}, {503, time.Hour}} {
		counted.answered(one.status, one.took)
	}
	got := counted.sum()
	if got.Requests != 5 || got.Errors != 2 || got.Limited != 1 || len(got.Latency) != wire.LatencyBuckets {
		t.Errorf("%+v", got)
	}
	for bucket, want := range map[int]uint64{
		0: 1, wire.LatencyBucket(time.Millisecond): 2, wire.LatencyBucket(time.Second): 1, wire.LatencyBuckets - 1: 1,
	} {
		if got.Latency[bucket] != want {
			t.Errorf("bucket %d holds %d, want %d", bucket, got.Latency[bucket], want)
		}
	}
}
