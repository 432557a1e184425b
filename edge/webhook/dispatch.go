package webhook

import (
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// start tries the first item of q, unless its lease would end before the try
// does. s.mu is held.
func (s *Sender) start(q *queue, l *lane, now time.Time) {
	i := q.items.pop()
	if now.Add(s.c.Timeout + s.c.flushTime()).After(i.until) {
		s.unlease(q, i, now)
		q.shrink()
		return
	}
	t := &try{queue: q, item: i, target: q.endpoint.target, secrets: q.endpoint.secrets, lane: l, started: now}
	q.inFlight++
	q.usedAt = now
	l.occupy(q)
	if l.budget != &s.lanes.slowTries {
		s.watch(t, l.budget)
	}
	s.refill(q)
	s.dispatch(t)
}

// worker makes tries, one after the other. Its stack has grown to what a try
// takes; growing it in a goroutine for each try is a twentieth of a try's cost.
type worker chan *try

// idleMost is how many workers wait for a next try, at most.
const idleMost = 256

// dispatch gives a try to a worker that waits, or to a new one. s.mu is held.
func (s *Sender) dispatch(t *try) {
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

// run makes a try and records its outcome.
func (s *Sender) run(t *try, w worker) {
	r := t.send(s.ctx, s.transport, &s.c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || len(s.idle) == idleMost {
		close(w)
	} else {
		s.idle = append(s.idle, w)
	}
	now := time.Now()
	q := t.queue
	t.done = true
	s.ended(t)
	q.inFlight--
	if r.abandoned {
		s.unlease(q, t.item, now)
		return
	}
	o := s.judge(t, r, now)
	s.publish(t, o)
	s.record(t.item, o)
	if r.ok && !t.hung { // an endpoint that has come back shows it in one go
		s.startIn(&s.lanes.slow, q, now)
	}
	s.offer(q, now)
	s.schedule(now)
}

// judge decides the outcome of a try, and what it says of the endpoint's health.
// s.mu is held.
func (s *Sender) judge(t *try, r result, now time.Time) deliveries.Outcome {
	q := t.queue
	o := deliveries.Outcome{Attempt: r.attempt, SubscriptionID: q.id}
	if now.Sub(t.started) >= s.c.SlowAfter { // with the body, which may drip
		s.hung(t)
	}
	if r.ok {
		q.health.succeeded(!t.hung, s.c.PerEndpoint)
		o.State = store.StateDelivered
		s.stats.Delivered++
	} else {
		q.health.failed(now)
		var again bool
		if o.NextAt, again = s.c.next(t.item.Tries+1, now, r.retryAfter); again {
			o.State = store.StatePending
			s.dueLater(q, o.NextAt)
		} else {
			o.State = store.StateDead
			s.stats.Dead++
		}
		s.stats.Failed++
		s.warnFailing(q, t.item, r.attempt)
	}
	s.recount(q)
	return o
}

// record queues an outcome to be written. s.mu is held.
func (s *Sender) record(i *item, o deliveries.Outcome) {
	q := s.queues[i.SubscriptionID]
	s.keep(q, 0, len(o.Attempt.Excerpt))
	s.outcomes = append(s.outcomes, outcome{o, q, i.size() + len(o.Attempt.Excerpt)})
	s.writeNow.Send()
}

// unlease ends the lease of an item that was not tried, unless another process has claimed
// it since. s.mu is held.
func (s *Sender) unlease(q *queue, i *item, now time.Time) {
	s.record(i, deliveries.Outcome{
		Attempt: store.Attempt{DeliveryID: i.ID}, Owner: s.c.Owner, SubscriptionID: q.id, State: store.StatePending, NextAt: i.NextAt,
	})
	s.dueLater(q, now)
}

// cancel drops all items of q, whose endpoint may not be sent to. Those that were made or became
// due after it was read are claimed again, with another reading. s.mu is held.
func (s *Sender) cancel(q *queue, now time.Time) {
	for q.items.len() > 0 {
		i := q.items.pop()
		if i.CreatedAt.After(q.endpoint.readAt) || i.NextAt.After(q.endpoint.readAt) {
			s.unlease(q, i, now)
			continue
		}
		s.stats.Cancelled++
		s.record(i, deliveries.Outcome{Attempt: store.Attempt{DeliveryID: i.ID}, State: store.StateCancelled})
	}
	s.refill(q) // to cancel the others
}

// giveUp ends a delivery that was to be tried giveUpAfter ago. An operator can queue it
// again. s.mu is held.
func (s *Sender) giveUp(q *queue, i *item) {
	if !q.gaveUp {
		q.gaveUp = true
		s.c.Log.Warn("webhook endpoint fails and does not keep up: what has been due for three days is given up", "subscription", q.id)
	}
	s.stats.Dead++
	s.record(i, deliveries.Outcome{Attempt: store.Attempt{DeliveryID: i.ID}, State: store.StateDead})
}

// warnFailing logs, once, that an endpoint has been failing for days.
func (s *Sender) warnFailing(q *queue, i *item, a store.Attempt) {
	if i.Endpoint.FailingFrom.IsZero() || q.health.warned || a.StartedAt.Sub(i.Endpoint.FailingFrom) < store.FailingLong {
		return
	}
	q.health.warned = true
	s.c.Log.Warn("webhook endpoint keeps failing", "subscription", q.id, "since", i.Endpoint.FailingFrom, "status", a.Status)
}
