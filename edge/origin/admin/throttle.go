package admin

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// throttle bounds how often something is done to each of many records, in this
// process: a bucket a record, which forgets those that are full again.
type throttle struct {
	every time.Duration // a turn comes back
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// throttleMost is how many buckets there may be before full ones are looked for.
const throttleMost = 1000

func newThrottle(every time.Duration, burst int, now func() time.Time) *throttle {
	return &throttle{every: every, burst: burst, now: now, buckets: make(map[string]*rate.Limiter)}
}

// take a turn, or say with a problem when the next one is.
func (t *throttle) take(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	bucket := t.buckets[id]
	if bucket == nil {
		if len(t.buckets) >= throttleMost {
			t.sweep(now)
		}
		bucket = rate.NewLimiter(rate.Every(t.every), t.burst)
		t.buckets[id] = bucket
	}
	turn := bucket.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return &problem{Kind: kindLimited, Detail: "too often for one subscription; try again later", retryAfter: wait}
	}
	return nil
}

func (t *throttle) sweep(now time.Time) {
	for id, bucket := range t.buckets {
		if bucket.TokensAt(now) >= float64(t.burst) {
			delete(t.buckets, id)
		}
	}
}

// setRetryAfter writes a time in whole seconds, 1 at the least.
func setRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
}
