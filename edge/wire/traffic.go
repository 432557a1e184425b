package wire

import (
	"math"
	"time"
)

// LatencyBuckets is the number of buckets of a latency histogram.
const LatencyBuckets = 33

// LatencyBound returns the longest time that falls into bucket i: 100 µs times
// the i-th power of the square root of 2. The last bucket, from 4.6 s on, is
// unbounded, whatever LatencyBound returns for it.
func LatencyBound(i int) time.Duration {
	return time.Duration(float64(100*time.Microsecond) * math.Pow(2, float64(i)/2))
}

// LatencyBucket returns the bucket that d falls into.
func LatencyBucket(d time.Duration) int {
	if d <= 100*time.Microsecond {
		return 0
	}
	i := int(math.Ceil(2 * math.Log2(float64(d)/float64(100*time.Microsecond))))
	return min(i, LatencyBuckets-1)
}

// Traffic counts the answers of a node since it started. It holds a histogram
// because those of several nodes can be added, which quantiles cannot.
type Traffic struct {
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"`  // with a status of 500 or more
	Limited  uint64   `json:"limited"` // with 429
	Latency  []uint64 `json:"latency"` // by bucket
}
