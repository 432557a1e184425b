package webhook

import "time"

// dueLater remembers that the database has something for q at a time. s.mu is
// held.
func (s *Sender) dueLater(q *queue, at time.Time) {
	if q.dueAt.IsZero() || at.Before(q.dueAt) {
		q.dueAt = at
	}
	s.look(q, q.dueAt)
}

// look has the queue looked at by a time, unless that is zero. s.mu is held.
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

// watch keeps a try of the fast lane in view until it is slow. Tries are watched
// in the order of their starts. s.mu is held.
func (s *Sender) watch(t *try) {
	for s.watched.len() > 0 && s.watched.first().done {
		s.watched.pop()
	}
	s.watched.push(t)
	if !s.watching {
		s.watching = true
		time.AfterFunc(s.c.SlowAfter, s.moveSlow)
	}
}

// moveSlow moves tries without an answer after SlowAfter to the slow lane's
// budget.
func (s *Sender) moveSlow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.watching = false
	for s.watched.len() > 0 {
		t := s.watched.first()
		if left := t.started.Add(s.c.SlowAfter).Sub(now); left > 0 && !t.done {
			s.watching = true
			time.AfterFunc(left, s.moveSlow)
			break
		}
		s.watched.pop()
		if !t.done {
			s.fast.inFlight--
			s.slow.inFlight++
			t.lane = &s.slow
			t.queue.health.slow = true
		}
	}
	s.schedule(now)
}
