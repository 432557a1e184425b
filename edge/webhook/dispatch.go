package webhook

import (
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// lane is a ring of queues that may have something to start, and a budget.
type lane struct {
	ring     fifo[*queue]
	inFlight int
	budget   int
}

// offer puts a queue into its ring when it has something that may start, and
// otherwise sees to it that it is looked at in time. s.mu is held.
func (s *Sender) offer(q *queue, now time.Time) {
	if q.ringed {
		return
	}
	ok, at := q.startable(now, s.c.PerEndpoint, s.c.HoldMost)
	if !ok {
		s.setAlarm(q, at)
		return
	}
	if s.standing(q, now) {
		q.ringed = true
		s.laneOf(q).ring.push(q)
	}
}

// laneOf: an endpoint that has not proven itself starts in the fast lane only
// while the slow one could take its tries over.
func (s *Sender) laneOf(q *queue) *lane {
	if q.health.slow || (!q.health.proven && s.slow.inFlight >= s.slow.budget) {
		return &s.slow
	}
	return &s.fast
}

// schedule starts what may start: from each ring in turn, one item a queue.
// s.mu is held.
func (s *Sender) schedule(now time.Time) {
	if s.stopping {
		return
	}
	s.serve(&s.fast, now)
	s.serve(&s.slow, now)
	s.serve(&s.fast, now) // queues that need not be in the slow ring any more
}

func (s *Sender) serve(l *lane, now time.Time) {
	for l.inFlight < l.budget && l.ring.len() > 0 {
		q := l.ring.pop()
		q.ringed = false
		if ok, _ := q.startable(now, s.c.PerEndpoint, s.c.HoldMost); ok && s.laneOf(q) == l && s.standing(q, now) {
			s.start(q, l, now)
		}
		s.offer(q, now)
	}
}

// standing tells whether it is known well enough what may be sent to q, and has
// it read again when not. s.mu is held.
func (s *Sender) standing(q *queue, now time.Time) bool {
	age, version := now.Sub(q.standingAt), s.c.Store.StandingsVersion()
	if (age > s.c.StandingAge/2 || q.version != version) && !q.checking {
		q.checking = true
		s.checks = append(s.checks, q)
		signal(s.checkNow)
	}
	return age <= s.c.StandingAge && q.version == version
}

// start takes the first item of q and tries it, unless its lease would end
// before the try does. s.mu is held.
func (s *Sender) start(q *queue, l *lane, now time.Time) {
	i := q.items.pop()
	if now.Add(s.c.Timeout + s.c.flushTime()).After(i.until) {
		s.giveBack(q, i, now)
		q.shrink()
		return
	}
	t := &try{queue: q, item: i, target: q.target, secrets: q.secrets, lane: l, started: now}
	q.inFlight++
	q.usedAt = now
	l.inFlight++
	if l == &s.fast {
		s.watch(t)
	}
	s.want(q)
	s.hand(t)
}

// worker makes tries, one after the other. Its stack has grown by then to what a
// try takes, which for a goroutine of its own is a twentieth of a try's cost.
type worker chan *try

// idleMost is how many workers wait for a next try, at most.
const idleMost = 256

// hand gives a try to a worker that has made one, or to a new one. s.mu is held.
func (s *Sender) hand(t *try) {
	var w worker
	if last := len(s.idle) - 1; last >= 0 {
		w, s.idle = s.idle[last], s.idle[:last]
	} else {
		w = make(worker, 1)
		s.tries.Go(func() {
			for t := range w {
				s.run(t, w)
			}
		})
	}
	w <- t
}

// rest has a worker wait for its next try, or end. s.mu is held.
func (s *Sender) rest(w worker) {
	if s.stopping || len(s.idle) == idleMost {
		close(w)
		return
	}
	s.idle = append(s.idle, w)
}

// run makes a try and writes down what came of it.
func (s *Sender) run(t *try, w worker) {
	r := t.make(s.ctx, s.transport, s.c.Timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest(w)
	now := time.Now()
	q := t.queue
	t.done = true
	t.lane.inFlight--
	q.inFlight--
	wasProven := q.health.proven
	defer func() { s.reckon(q, wasProven) }()
	if r.abandoned {
		s.giveBack(q, t.item, now)
		return
	}
	o := central.Outcome{Attempt: r.attempt, SubscriptionID: q.id}
	if r.ok {
		q.health.succeeded(r.attempt.Latency, s.c.SlowAfter, s.c.PerEndpoint)
		o.State = store.StateDelivered
		s.stats.Delivered++
	} else {
		q.health.failed(now, r.late)
		var again bool
		if o.NextAt, again = s.c.next(t.item.Tries+1, now, r.retryAfter); again {
			o.State = store.StatePending
			s.dueLater(q, o.NextAt)
		} else {
			o.State = store.StateDead
			s.stats.Dead++
		}
		s.stats.Failed++
		s.noteFailing(q, t.item, r.attempt)
	}
	s.tell(t, o.Attempt, o.State, o.NextAt)
	s.conclude(t.item, o)
	s.offer(q, now)
	s.schedule(now)
}

// conclude hands an outcome to be written. s.mu is held.
func (s *Sender) conclude(i *item, o central.Outcome) {
	s.heldBytes += len(o.Attempt.Excerpt)
	s.outcomes = append(s.outcomes, conclusion{o, s.queues[i.SubscriptionID], i.size() + len(o.Attempt.Excerpt)})
	signal(s.writeNow)
}

// giveBack returns an item that was not tried. s.mu is held.
func (s *Sender) giveBack(q *queue, i *item, now time.Time) {
	s.conclude(i, central.Outcome{
		Attempt: store.Attempt{DeliveryID: i.ID}, State: store.StatePending, NextAt: i.NextAt,
	})
	s.dueLater(q, now)
}

// cancel drops all that waits for q: it may not be sent. s.mu is held.
func (s *Sender) cancel(q *queue) {
	for q.items.len() > 0 {
		i := q.items.pop()
		s.stats.Cancelled++
		s.conclude(i, central.Outcome{Attempt: store.Attempt{DeliveryID: i.ID}, State: store.StateCancelled})
	}
}

// dueLater remembers that the database has something for q at a time. s.mu is
// held.
func (s *Sender) dueLater(q *queue, at time.Time) {
	if q.next.IsZero() || at.Before(q.next) {
		q.next = at
	}
	s.setAlarm(q, q.next)
}

func (s *Sender) setAlarm(q *queue, at time.Time) {
	if s.alarms.set(q, at) {
		signal(s.alarmNow)
	}
}

// watch keeps a try of the fast lane in view until it is slow. Tries are watched
// in the order of their starts. s.mu is held.
func (s *Sender) watch(t *try) {
	for s.watched.len() > 0 && s.watched.first().done {
		s.watched.pop()
	}
	s.watched.push(t)
	if !s.watching {
		s.watching = true
		signal(s.alarmNow)
	}
}

// moveSlow hands tries that are not answered after SlowAfter to the slow lane's
// budget, and returns when the next will be. s.mu is held.
func (s *Sender) moveSlow(now time.Time) (next time.Time) {
	for s.watched.len() > 0 {
		t := s.watched.first()
		if t.done {
			s.watched.pop()
			continue
		}
		if at := t.started.Add(s.c.SlowAfter); at.After(now) {
			return at
		}
		s.watched.pop()
		s.fast.inFlight--
		s.slow.inFlight++
		t.lane = &s.slow
		t.queue.health.slow = true
	}
	s.watching = false
	return time.Time{}
}

// failingLong is after how long an endpoint that fails is spoken of.
const failingLong = 5 * 24 * time.Hour

// noteFailing logs, once, that an endpoint has been failing for days.
func (s *Sender) noteFailing(q *queue, i *item, a store.Attempt) {
	if i.FailingFrom.IsZero() || q.health.told || a.StartedAt.Sub(i.FailingFrom) < failingLong {
		return
	}
	q.health.told = true
	s.c.Log.Warn("webhook endpoint keeps failing", "subscription", q.id, "since", i.FailingFrom, "status", a.Status)
}
