package webhook

import "time"

// budget counts tries under way.
type budget struct {
	inFlight int

	// Tries leave the budgets of proven and trial when they are slow.
	lane    *lane      // nil: any other budget
	watched fifo[*try] // by start, until they are slow
	early   int        // how many of watched, from the first on, are done or have left
	wakeAt  time.Time  // when the timer looks at watched; zero: it does not run
	timer   *time.Timer
}

// lane is a list of queues that may have a try to start, and a share of a budget.
type lane struct {
	budget *budget
	most   int  // tries under way in the budget at which none starts from this lane
	nth    int  // the lane's index in account.byLane
	share  bool // accounts have a share of it: see shareOf

	accounts fifo[*account] // those with queues in the lane, in rotation
	waiting  int            // accounts out of the rotation, since they have their share
}

// lanes holds all of a Sender. Which one a queue waits in is laneOf's to say.
type lanes struct {
	// proven is for endpoints that answer, trial for those that have yet to show it,
	// slow for those whose tries hang, and extra for a try beyond the limit of an endpoint
	// that is not proven, whose delivery is HoldMost late.
	proven, trial, slow, extra lane
	// Budgets: the last two lanes have one together. Tries move to movedTries, early ones
	// while it has fewer than movedMost.
	provenTries, trialTries, slowTries, movedTries budget
	movedMost                                      int
}

const laneCount = 4

func newLanes(c *Config) *lanes {
	l := &lanes{movedMost: 2 * c.Slow}
	l.proven = lane{budget: &l.provenTries, most: c.Fast - c.Trial, nth: 0}
	l.trial = lane{budget: &l.trialTries, most: c.Trial, nth: 1, share: true}
	l.provenTries.lane, l.trialTries.lane = &l.proven, &l.trial
	l.slow = lane{budget: &l.slowTries, most: c.Slow, nth: 2, share: true}
	l.extra = lane{budget: &l.slowTries, most: c.Slow / 2, nth: 3}
	return l
}

// account holds what the queues of one account have in common.
type account struct {
	id     string
	queues int // that are known
	byLane [laneCount]laneQueues
}

// laneQueues holds the queues of one account that wait in one lane.
type laneQueues struct {
	tickets  fifo[ticket]
	inFlight int  // tries of the account with a place in the lane's budget
	listed   bool // among the lane's accounts
	waits    bool // among those that the lane counts as waiting
}

// ticket is a queue's entry among those that wait in a lane. A queue numbers its tickets,
// and only the one with the last number is valid.
type ticket struct {
	queue  *queue
	number uint64
}

// left reports whether the queue no longer waits in the lane with this ticket.
func (t ticket) left(l *lane) bool { return t.queue.waitsIn != l || t.queue.tickets != t.number }

// push puts a queue behind the others of its account.
func (l *lane) push(q *queue) {
	q.waitsIn = l
	q.tickets++
	q.account.byLane[l.nth].tickets.push(ticket{q, q.tickets})
	l.list(q.account)
}

// list puts an account into the rotation while it has queues in the lane.
func (l *lane) list(a *account) {
	w := &a.byLane[l.nth]
	l.setWaits(w, false)
	if !w.listed && w.tickets.len() > 0 {
		w.listed = true
		l.accounts.push(a)
	}
}

// setWaits says whether an account waits for a part of its share to be free.
func (l *lane) setWaits(w *laneQueues, waits bool) {
	switch {
	case waits && !w.waits:
		l.waiting++
	case !waits && w.waits:
		l.waiting--
	}
	w.waits = waits
}

// pop takes the next account's next queue, nil when there is none that may have a
// try. An account that has its share already leaves the rotation until a try of it ends or moves.
func (l *lane) pop() *queue {
	for l.accounts.len() > 0 {
		a := l.accounts.pop()
		w := &a.byLane[l.nth]
		w.listed = false
		for w.tickets.len() > 0 && w.tickets.first().left(l) {
			w.tickets.pop()
		}
		if w.tickets.len() == 0 {
			continue
		}
		if l.share && w.inFlight >= l.shareOf() {
			l.setWaits(w, true)
			continue
		}
		q := w.tickets.pop().queue
		q.waitsIn = nil
		l.list(a)
		return q
	}
	return nil
}

// shareOf returns how many tries an account may have under way in the lane: a part of
// those that are free, so that some stay free however many accounts take theirs.
func (l *lane) shareOf() int { return max(1, (l.most-l.budget.inFlight)/4) }

// occupy takes a place in the lane's budget for q.
func (l *lane) occupy(q *queue) {
	l.budget.inFlight++
	q.account.byLane[l.nth].inFlight++
}

// vacate gives back what occupy took.
func (l *lane) vacate(q *queue) {
	l.budget.inFlight--
	q.account.byLane[l.nth].inFlight--
	if l.share {
		l.list(q.account)
	}
}

// laneOf returns the lane for a queue's next try; extra is what startable says of it.
func (s *Sender) laneOf(q *queue, extra bool) *lane {
	switch {
	case q.health.trusted():
		return &s.lanes.proven
	case extra:
		return &s.lanes.extra
	case q.health.slow():
		return &s.lanes.slow
	}
	return &s.lanes.trial
}

// offer puts a queue into its lane when a try of it may start, and otherwise sets a
// timer for when one may. s.mu is held.
func (s *Sender) offer(q *queue, now time.Time) {
	if q.reserved != nil {
		return
	}
	ok, extra, at := q.startable(now, s.c.PerEndpoint, s.c.HoldMost)
	if !ok {
		s.look(q, at)
		return
	}
	if l := s.laneOf(q, extra); q.waitsIn != l {
		l.push(q)
	}
}

// schedule starts the tries that may start. s.mu is held.
func (s *Sender) schedule(now time.Time) {
	if s.stopping {
		return
	}
	for again := true; again; {
		again = false
		for _, l := range []*lane{&s.lanes.proven, &s.lanes.trial, &s.lanes.slow, &s.lanes.extra} {
			again = s.serve(l, now) || again
		}
	}
}

// serve starts tries from a lane, in rotation over accounts and their queues, one item
// a queue. It reports whether it found a queue that belongs into another lane.
func (s *Sender) serve(l *lane, now time.Time) (moved bool) {
	for l.budget.inFlight < l.most {
		q := l.pop()
		if q == nil {
			break
		}
		ok, extra, _ := q.startable(now, s.c.PerEndpoint, s.c.HoldMost)
		switch {
		case !ok:
		case s.laneOf(q, extra) != l:
			moved = true
		case s.ensureFresh(q, now):
			s.start(q, l, now)
		default: // a place is kept for it, so that no more endpoints are read than can be tried
			q.reserved = l
			l.occupy(q)
		}
		s.offer(q, now)
	}
	if b := l.budget; b.lane == l && s.crowded(l) && b.early < b.watched.len() {
		s.wake(b, b.watched.at(b.early).started.Add(s.patience()))
	}
	return moved
}

// refreshed uses the place that was kept for q while its endpoint was read. s.mu is
// held.
func (s *Sender) refreshed(q *queue, now time.Time) {
	if l := q.reserved; l != nil {
		q.reserved = nil
		l.vacate(q)
		s.startIn(l, q, now)
	}
	s.offer(q, now)
}

// startIn starts a try of q from a lane, if it may start there, before others that
// wait. s.mu is held.
func (s *Sender) startIn(l *lane, q *queue, now time.Time) {
	ok, extra, _ := q.startable(now, s.c.PerEndpoint, s.c.HoldMost)
	if ok && !s.stopping && s.laneOf(q, extra) == l && l.budget.inFlight < l.most && s.ensureFresh(q, now) {
		s.start(q, l, now)
	}
}

// crowded reports whether queues wait for a try to end, and there is room for tries that
// leave before they are slow. s.mu is held.
func (s *Sender) crowded(l *lane) bool {
	full := l.budget.inFlight >= l.most && l.accounts.len() > 0
	return (full || l.waiting > 0) && s.lanes.movedTries.inFlight < s.lanes.movedMost
}

// crowdedPatience is how long a try may be without an answer before it gives its place
// to another that waits for it. Its endpoint is not thought to hang for that.
const crowdedPatience = 100 * time.Millisecond

func (s *Sender) patience() time.Duration { return min(crowdedPatience, s.c.SlowAfter) }

// watch keeps a try in view until it is slow. s.mu is held.
func (s *Sender) watch(t *try, b *budget) {
	for b.watched.len() > 0 && b.watched.first().done {
		b.unwatch()
	}
	b.watched.push(t)
	s.wake(b, t.started.Add(s.c.SlowAfter))
}

// unwatch takes the first try from those that are watched.
func (b *budget) unwatch() {
	b.watched.pop()
	b.early = max(0, b.early-1)
}

// wake sets the timer that looks at the watched tries to a time, unless it is set to an
// earlier one. s.mu is held.
func (s *Sender) wake(b *budget, at time.Time) {
	if s.stopping || (!b.wakeAt.IsZero() && !at.Before(b.wakeAt)) {
		return
	}
	b.wakeAt = at
	if b.timer == nil {
		b.timer = time.AfterFunc(time.Until(at), func() { s.moveSlow(b) })
	} else {
		b.timer.Reset(time.Until(at))
	}
}

// moveSlow moves tries without an answer after SlowAfter out of their budget, and others
// earlier while their lane is crowded.
func (s *Sender) moveSlow(b *budget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	b.wakeAt = time.Time{}
	for b.watched.len() > 0 {
		t := b.watched.first()
		if !t.done && now.Sub(t.started) < s.c.SlowAfter {
			s.wake(b, t.started.Add(s.c.SlowAfter))
			break
		}
		b.unwatch()
		if !t.done {
			s.move(t)
			s.hung(t)
		}
	}
	for ; b.early < b.watched.len() && s.crowded(b.lane); b.early++ {
		t := b.watched.at(b.early)
		if !t.done && now.Sub(t.started) < s.patience() {
			break
		}
		if !t.done {
			s.move(t)
		}
	}
	s.schedule(now)
}

// move takes a try out of its lane's budget, unless it has left it already. It counts in
// no other lane: the places of the slow one are for endpoints that are known to hang.
// s.mu is held.
func (s *Sender) move(t *try) {
	if t.lane == nil {
		return
	}
	t.lane.vacate(t.queue)
	t.lane = nil
	s.lanes.movedTries.inFlight++
}

// ended gives back the place of a try that ended. s.mu is held.
func (s *Sender) ended(t *try) {
	if t.lane == nil {
		s.lanes.movedTries.inFlight--
		return
	}
	t.lane.vacate(t.queue)
}

// hung counts against the endpoint, once, that a try took SlowAfter or longer. s.mu is
// held.
func (s *Sender) hung(t *try) {
	if !t.hung {
		t.hung = true
		t.queue.health.hung()
		s.recount(t.queue)
	}
}
