package wire

import (
	"math"
	"time"
)

// LatencyBuckets is how many buckets a node sorts its answers into by the time
// they took.
const LatencyBuckets = 33

// LatencyBound is the longest time that falls into bucket i: 100 µs times the
// square root of 2 for each step. The last bucket, from 4.6 s on, has no bound;
// its value here is twice the one before.
func LatencyBound(i int) time.Duration {
	return time.Duration(float64(100*time.Microsecond) * math.Pow(2, float64(i)/2))
}

// LatencyBucket is the bucket that a time falls into.
func LatencyBucket(d time.Duration) int {
	if d <= 100*time.Microsecond {
		return 0
	}
	i := int(math.Ceil(2 * math.Log2(float64(d)/float64(100*time.Microsecond))))
	return min(i, LatencyBuckets-1)
}

// Traffic counts what a node has answered since it started. Histograms of nodes
// can be added up, which quantiles cannot.
type Traffic struct {
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"`  // with a status of 500 or more
	Limited  uint64   `json:"limited"` // with 429
	Latency  []uint64 `json:"latency"` // by bucket
}
