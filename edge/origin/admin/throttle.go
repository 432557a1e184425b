package admin

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"partneredge/edge/origin/admin/input"
)

// throttle bounds how often something is done to each of many records, in this
// process: a bucket a record, which forgets those that are full again.
type throttle struct {
	every time.Duration // after which a token comes back
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// throttleMost bounds the buckets; beyond it, full ones are removed.
const throttleMost = 1000

func newThrottle(every time.Duration, burst int, now func() time.Time) *throttle {
	return &throttle{every: every, burst: burst, now: now, buckets: make(map[string]*rate.Limiter)}
}

// allow spends a token of a record, or returns a problem with the time of the next.
func (t *throttle) allow(id string) error {
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
	token := bucket.ReserveN(now, 1)
	if wait := token.DelayFrom(now); wait > 0 {
		token.CancelAt(now)
		return &input.Problem{Kind: input.KindLimited, Detail: "too often; try again later", RetryAfter: wait}
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

// SetRetryAfter writes a time in whole seconds, 1 at the least.
func SetRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
}
