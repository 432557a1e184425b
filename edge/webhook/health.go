package webhook

import "time"

// health of an endpoint decides how many tries it gets at a time.
type health struct {
	proven   bool // its last try went well
	slow     bool // served from the slow lane
	failures int  // in a row
	limit    int  // tries at a time
	probeAt  time.Time
	warned   bool // that it has been failing for days
}

// openFrom is how many failures in a row open the breaker: the endpoint is then
// only probed.
const openFrom = 3

func (h *health) open() bool { return h.failures >= openFrom }

// succeeded doubles the limit, so that a good endpoint is at full speed after a
// few round trips.
func (h *health) succeeded(latency, slowAfter time.Duration, most int) {
	if h.open() {
		h.limit = 1
	}
	h.proven, h.failures, h.probeAt = true, 0, time.Time{}
	h.slow = latency >= slowAfter
	h.limit = min(2*h.limit, most)
}

// failed halves the limit, and spaces probes at growing intervals once the
// breaker is open.
func (h *health) failed(now time.Time, timedOut bool) {
	h.proven = false
	h.failures++
	h.limit = max(1, h.limit/2)
	if timedOut {
		h.slow = true
	}
	if h.open() {
		h.slow = true
		h.limit = 1
		pause := probeFirst << min(h.failures-openFrom, 8)
		h.probeAt = now.Add(min(pause, probeMost))
	}
}

// Pauses between probes of an endpoint that fails.
const (
	probeFirst = 100 * time.Millisecond
	probeMost  = 2 * time.Second
)
