package wire

import (
	"math"
	"net/http"
	"sync/atomic"
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

// TrafficCounter counts answers. It is safe for many goroutines; the zero value
// has counted none.
type TrafficCounter struct {
	requests, errors, limited atomic.Uint64
	latency                   [LatencyBuckets]atomic.Uint64
}

// Add counts an answer by its status and the time that it took.
func (c *TrafficCounter) Add(status int, took time.Duration) {
	switch {
	case status >= http.StatusInternalServerError:
		c.errors.Add(1)
	case status == http.StatusTooManyRequests:
		c.limited.Add(1)
	}
	c.latency[LatencyBucket(took)].Add(1)
	c.requests.Add(1)
}

// Sum returns what was counted.
func (c *TrafficCounter) Sum() Traffic {
	sum := Traffic{
		Requests: c.requests.Load(), Errors: c.errors.Load(), Limited: c.limited.Load(),
		Latency: make([]uint64, LatencyBuckets),
	}
	for i := range c.latency {
		sum.Latency[i] = c.latency[i].Load()
	}
	return sum
}
