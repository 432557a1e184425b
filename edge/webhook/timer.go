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
