package webhook

import (
	"time"

	"partneredge/store/central"
)

// item is a delivery in memory.
type item struct {
	central.Claim
	until time.Time // when the lease ends
}

func (i *item) size() int { return len(i.Body) + itemSize }

// itemSize is about what an item takes beside its body.
const itemSize = 600

// queue is what is known of one subscription.
type queue struct {
	id    string
	items fifo[*item]

	inFlight int
	held     int // items, tries under way, and outcomes not yet written
	window   int // the most items; less when they cannot be worked off in time

	// What the database has besides.
	more     bool      // something due
	moreSeen int       // counts the times that more was set
	next     time.Time // when something will be due; zero: nothing known
	wanted   bool      // in Sender.wanting, or being claimed

	// How the subscription stands, and as of when and of which version.
	target     *target
	secrets    []string
	deliver    bool
	standingAt time.Time
	version    uint64
	accepted   uint64 // the version when a delivery was last accepted
	checking   bool   // in Sender.checks, or being read

	health health
	ringed bool // in a ring

	alarmAt time.Time // zero: not among the alarms
	alarm   int       // its place there
	usedAt  time.Time
}

// health of an endpoint: how much of it is tried at a time.
type health struct {
	proven   bool // its last try went well
	slow     bool // served from the slow ring
	failures int  // in a row
	limit    int  // tries at a time
	opens    time.Time
	told     bool // that it has been failing for days
}

// openFrom is how many failures in a row make an endpoint one that is only
// probed.
const openFrom = 3

func (h *health) open() bool { return h.failures >= openFrom }

// succeeded: the limit doubles, so a good endpoint is at full speed in a few
// round trips.
func (h *health) succeeded(latency, slowAfter time.Duration, most int) {
	wasOpen := h.open()
	h.proven, h.failures, h.opens = true, 0, time.Time{}
	h.slow = latency >= slowAfter
	if wasOpen {
		h.limit = 1
	}
	h.limit = min(2*h.limit, most)
}

// failed: the limit is halved, then probes at growing intervals. Half of the
// failures of tries that were under way together say one thing, not many.
func (h *health) failed(now time.Time, slow bool) {
	h.proven = false
	h.failures++
	h.limit = max(1, h.limit/2)
	if slow {
		h.slow = true
	}
	if h.open() {
		h.slow = true
		h.limit = 1
		pause := probeFirst << min(h.failures-openFrom, 8)
		h.opens = now.Add(min(pause, probeMost))
	}
}

// Pauses between probes of an endpoint that fails.
const (
	probeFirst = 100 * time.Millisecond
	probeMost  = 2 * time.Second
)

// startable tells whether the queue's first item may be tried now; if not, at
// is when to look again, zero when something else has to happen first.
func (q *queue) startable(now time.Time, most int, hold time.Duration) (ok bool, at time.Time) {
	if q.items.len() == 0 || q.inFlight >= most || q.inFlight+q.unwritten() >= unwrittenMost*most {
		return false, time.Time{}
	}
	overdue := q.items.first().NextAt.Add(hold)
	if !now.Before(overdue) {
		return true, time.Time{} // whatever the state of the endpoint
	}
	if q.inFlight >= q.health.limit {
		return false, overdue
	}
	if q.health.open() && now.Before(q.health.opens) {
		if q.health.opens.Before(overdue) {
			return false, q.health.opens
		}
		return false, overdue
	}
	return true, time.Time{}
}

// Windows: of a queue that is new, that does not move, and what every queue may
// hold however full the memory is, so that it can prove itself.
const (
	windowFirst = 256
	windowLeast = 16
	windowSure  = 2
)

// unwritten are tries that ended and whose outcomes are not on disk yet.
func (q *queue) unwritten() int { return q.held - q.items.len() - q.inFlight }

// unwrittenMost times the tries at a time is how many tries of one subscription
// a kill can cause to be made again.
const unwrittenMost = 4

// most is how many items the queue takes, as its endpoint is.
func (q *queue) most() int {
	if q.health.failures > 0 {
		return min(q.window, windowLeast)
	}
	return q.window
}

// low tells whether it is time to fetch more.
func (q *queue) low() bool { return q.items.len() <= q.most()/2 }

func (q *queue) grow(most int) { q.window = min(2*q.window, most) }

func (q *queue) shrink() { q.window = max(q.window/2, windowLeast) }

// fifo is a queue in a slice.
type fifo[T any] struct {
	all  []T
	head int
}

func (f *fifo[T]) len() int { return len(f.all) - f.head }

func (f *fifo[T]) first() T { return f.all[f.head] }

func (f *fifo[T]) push(v T) {
	if f.head > 32 && f.head > len(f.all)/2 {
		n := copy(f.all, f.all[f.head:])
		clear(f.all[n:])
		f.all, f.head = f.all[:n], 0
	}
	f.all = append(f.all, v)
}

func (f *fifo[T]) pop() T {
	v := f.all[f.head]
	var zero T
	f.all[f.head] = zero
	f.head++
	if f.head == len(f.all) {
		f.all, f.head = f.all[:0], 0
		if cap(f.all) > 4096 {
			f.all = nil
		}
	}
	return v
}
