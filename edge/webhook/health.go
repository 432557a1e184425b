package webhook

import "time"

// health of an endpoint decides from which lane its tries start, and how many it gets
// at a time.
type health struct {
	proven   bool // a try went well, and fewer than openFrom failed in a row since
	debt     int  // rises by hangCost with each try that hangs, and falls by one with each quick success
	failures int  // in a row
	limit    int  // tries at a time
	probeAt  time.Time
	warned   bool // that it has been failing for days
}

// openFrom is how many failures in a row open the breaker: the endpoint is then
// only probed.
const openFrom = 3

// hangCost is the number of quick successes that make up for one try that hangs. A proven
// endpoint may owe as many. So one that hangs once in a while keeps its lane, and one
// that answers and hangs in turn cannot: in the long run it takes up less than one slow
// try for each hangCost quick ones.
const hangCost = 8

func (h *health) open() bool { return h.failures >= openFrom }

// slow reports whether the endpoint's tries are expected to hang.
func (h *health) slow() bool {
	if h.proven {
		return h.debt > hangCost
	}
	return h.debt > 0
}

// trusted reports whether the endpoint is expected to answer well, and soon.
func (h *health) trusted() bool { return h.proven && !h.slow() }

// succeeded doubles the limit, so that a good endpoint is at full speed after a
// few round trips.
func (h *health) succeeded(quick bool, most int) {
	if h.open() {
		h.limit = 1
	}
	h.proven, h.failures, h.probeAt = true, 0, time.Time{}
	if quick {
		h.debt = max(0, h.debt-1)
	}
	h.limit = min(2*h.limit, most)
}

// hung adds to the endpoint's debt.
func (h *health) hung() { h.debt = min(h.debt+hangCost, 2*hangCost) }

// failed halves the limit, and spaces probes at growing intervals once the
// breaker is open.
func (h *health) failed(now time.Time) {
	h.failures++
	h.limit = max(1, h.limit/2)
	if h.open() {
		h.proven = false
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
