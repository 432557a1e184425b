package webhook

import (
	"time"

	"partneredge/store/central/deliveries"
)

// item is a delivery in memory.
type item struct {
	deliveries.Claim
	until time.Time // when the lease ends
}

func (i *item) size() int { return len(i.Body) + itemSize }

// itemSize is about what an item takes beside its body, in bytes.
const itemSize = 600

// queue holds the deliveries of one subscription.
type queue struct {
	id      string
	account *account // nil before the first item
	items   fifo[*item]

	inFlight  int
	held      int // items, tries under way, and outcomes not yet written
	heldBytes int // of them
	window    int // the most items; less when they cannot be worked off in time

	// What the database has besides.
	more       bool      // something due
	moreSeen   int       // counts the times that more was set
	behindFrom time.Time // since when each claim has left something due; zero: the last one left nothing
	dueAt      time.Time // when something will be due; zero: nothing known
	refilling  bool      // in Sender.refills, or being claimed

	endpoint   endpoint
	acceptedAt uint64 // the version of endpoints when a delivery was last accepted
	refreshing bool   // in Sender.stale, or being read

	health   health
	gaveUp   bool   // the log tells of a delivery that was given up
	trusted  bool   // what it holds counts as that of an endpoint that health trusts
	waitsIn  *lane  // nil: it does not wait for a try to start
	tickets  uint64 // how many it had; it waits in waitsIn with the last one
	reserved *lane  // in whose budget there is a place for q, while its endpoint is read

	lookAt time.Time // when the timer looks at the queue again; zero: it does not run
	timer  *time.Timer
	usedAt time.Time
}

// hasMore says that the database has something due.
func (q *queue) hasMore() {
	q.more = true
	q.moreSeen++
}

// givesUp reports whether a delivery is dead without a try: it is late by giveUpAfter, since
// its endpoint fails and has kept this process behind for giveUpBehind. One that waited
// because no sender ran is tried, whatever the endpoint does just now.
func (q *queue) givesUp(c *deliveries.Claim, now time.Time) bool {
	fails := q.health.failures > 0 && !c.Endpoint.FailingFrom.IsZero() && q.endpoint.deliverable
	return fails && now.Sub(c.NextAt) >= giveUpAfter && !q.behindFrom.IsZero() && now.Sub(q.behindFrom) >= giveUpBehind
}

// startable reports whether the queue's first item may be tried, and whether that would
// be an extra try: beyond the endpoint's limit, since the item has waited for hold past
// its time. If not, at is when to look again, zero when something else has to happen
// first.
func (q *queue) startable(now time.Time, most int, hold time.Duration) (ok, extra bool, at time.Time) {
	if q.items.len() == 0 || q.inFlight >= most || q.inFlight+q.unwritten() >= unwrittenMost*most {
		return false, false, time.Time{}
	}
	overdue := q.items.first().NextAt.Add(hold)
	switch {
	case !now.Before(overdue): // whatever the state of the endpoint
		return true, q.inFlight >= q.health.limit, time.Time{}
	case q.inFlight >= q.health.limit:
		return false, false, overdue
	case q.health.open() && now.Before(q.health.probeAt):
		if q.health.probeAt.Before(overdue) {
			return false, false, q.health.probeAt
		}
		return false, false, overdue
	}
	return true, false, time.Time{}
}

// Windows: of a queue that is new, the most of one whose endpoint fails, and what every
// queue may hold however full the memory is, so that its endpoint can prove itself.
const (
	windowFirst = 256
	windowLeast = 16
	windowSure  = 2
)

// unwritten counts tries that ended and whose outcomes are not on disk yet.
func (q *queue) unwritten() int { return q.held - q.items.len() - q.inFlight }

// unwrittenMost times the tries at a time is how many tries of one subscription
// a kill can cause to be made again.
const unwrittenMost = 4

// capacity returns how many items the queue takes: few while its endpoint fails or hangs.
func (q *queue) capacity() int {
	switch {
	case q.health.slow(): // more would wait for longer than their leases last
		return windowSure
	case q.health.open():
		return min(q.window, windowLeast)
	}
	return q.window
}

// low reports whether it is time to fetch more.
func (q *queue) low() bool { return q.items.len() <= q.capacity()/2 }

func (q *queue) grow(most int) { q.window = min(2*q.window, most) }

func (q *queue) shrink() { q.window = max(q.window/2, windowSure) }

// twoRanks lists queues in two ranks: those whose endpoints are expected to hang come
// after the others.
type twoRanks struct{ first, second fifo[*queue] }

func (r *twoRanks) len() int { return r.first.len() + r.second.len() }

func (r *twoRanks) push(q *queue) {
	if q.health.slow() {
		r.second.push(q)
	} else {
		r.first.push(q)
	}
}

// pop takes a queue of the first rank, or of the other where that is empty.
func (r *twoRanks) pop() *queue {
	if r.first.len() > 0 {
		return r.first.pop()
	}
	return r.second.pop()
}

// fifo is a first-in, first-out queue in a slice.
type fifo[T any] struct {
	all  []T
	head int
}

func (f *fifo[T]) len() int { return len(f.all) - f.head }

func (f *fifo[T]) first() T { return f.all[f.head] }

func (f *fifo[T]) at(i int) T { return f.all[f.head+i] }

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

// dueLater remembers that the database has something for q at a time. s.mu is
// held.
func (s *Sender) dueLater(q *queue, at time.Time) {
	if q.dueAt.IsZero() || at.Before(q.dueAt) {
		q.dueAt = at
	}
	s.look(q, q.dueAt)
}

// look sets the timer that looks at the queue to a time, unless that is zero or the timer
// is set to an earlier one. s.mu is held.
func (s *Sender) look(q *queue, at time.Time) {
	if at.IsZero() || s.stopping || (!q.lookAt.IsZero() && !at.Before(q.lookAt)) {
		return
	}
	q.lookAt = at
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(at), func() { s.onTimer(q) })
	} else {
		q.timer.Reset(time.Until(at))
	}
}

// onTimer looks at a queue whose time has come.
func (s *Sender) onTimer(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if q.lookAt.IsZero() {
		return
	}
	if q.lookAt.After(now) { // it was set again meanwhile, or the clock was
		q.timer.Reset(q.lookAt.Sub(now))
		return
	}
	q.lookAt = time.Time{}
	if !q.dueAt.IsZero() && !q.dueAt.After(now) {
		q.dueAt = time.Time{}
		q.hasMore()
		s.refill(q)
	}
	s.look(q, q.dueAt)
	s.offer(q, now)
	s.schedule(now)
}
