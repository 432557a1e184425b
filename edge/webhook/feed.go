package webhook

import (
	"context"
	"time"

	"partneredge/store/central"
)

// accept is the Taker's: it runs inside the database's transaction. While older
// deliveries wait there, claims have the first turn at filling the queue, so
// that neither the old nor the new are put off for good.
func (s *Sender) accept(subscriptionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(subscriptionID, time.Now())
	if n := q.items.len(); n > 0 && n >= q.window && time.Since(q.items.first().CreatedAt) < growWithin {
		q.grow(s.c.Window) // it was filled in no time
	}
	if s.stopping || s.room(q) == 0 || (q.more && q.items.len() > q.most()/4) {
		q.more = true
		q.moreSeen++
		return false
	}
	q.accepted = s.c.Store.StandingsVersion()
	return true
}

// growWithin is how old the first delivery of a queue may be that is given more
// room.
const growWithin = 2 * time.Second

// take is the Taker's: what was accepted has been committed.
func (s *Sender) take(claims []central.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range claims {
		s.hold(c, c.CreatedAt, s.queue(c.SubscriptionID, now).accepted, now)
	}
	s.schedule(now)
}

// room is how many more deliveries q may hold. Endpoints that are not proven
// share one half of the memory, so that they cannot fill it. s.mu is held.
func (s *Sender) room(q *queue) int {
	free := s.c.Held - len(s.held)
	if !q.health.proven {
		free = min(free, s.c.Held/2-s.unproven)
	}
	if s.heldBytes >= s.c.HeldBytes {
		free = 0
	}
	return max(min(q.most()-q.items.len(), max(free, windowSure-q.held)), 0)
}

// reckon counts anew what q holds when its endpoint may have proven itself, or
// no longer. s.mu is held.
func (s *Sender) reckon(q *queue, wasProven bool) {
	if wasProven && !q.health.proven {
		s.unproven += q.held
	} else if !wasProven && q.health.proven {
		s.unproven -= q.held
	}
}

// queue finds or makes a subscription's queue. s.mu is held.
func (s *Sender) queue(id string, now time.Time) *queue {
	q := s.queues[id]
	if q == nil {
		q = &queue{id: id, window: min(windowFirst, s.c.Window), health: health{limit: 1}, usedAt: now}
		s.queues[id] = q
	}
	return q
}

// hold puts a delivery into its queue that was leased, and read, at asOf and
// version. s.mu is held.
func (s *Sender) hold(c central.Claim, asOf time.Time, version uint64, now time.Time) {
	if _, already := s.held[c.ID]; already {
		return
	}
	i := &item{Claim: c, until: asOf.Add(s.c.Lease)}
	s.held[c.ID] = struct{}{}
	s.heldBytes += i.size()
	q := s.queue(c.SubscriptionID, now)
	q.usedAt = now
	q.held++
	if !q.health.proven {
		s.unproven++
	}
	if q.target == nil && !c.FailingFrom.IsZero() {
		q.health.slow = true
	}
	if now.Sub(q.standingAt) > s.c.StandingAge && version >= q.version { // else as much is known, or more
		s.stand(q, central.Standing{
			TargetURL: c.TargetURL, Secrets: c.Secrets, FailingFrom: c.FailingFrom, Deliverable: c.Live && !c.Revoked,
		}, asOf, version)
	}
	q.items.push(i)
	if !q.deliver {
		s.cancel(q)
		return
	}
	s.offer(q, now)
}

// stand takes in how a subscription stands. s.mu is held.
func (s *Sender) stand(q *queue, now central.Standing, at time.Time, version uint64) {
	if q.target == nil || q.target.raw != now.TargetURL {
		q.target = newTarget(now.TargetURL)
	}
	q.secrets = now.Secrets
	q.deliver, q.standingAt, q.version = now.Deliverable, at, version
}

// want asks for more of a queue when the database may have some and there is
// room. s.mu is held.
func (s *Sender) want(q *queue) {
	if q.more && !q.wanted && !s.stopping && q.low() {
		q.wanted = true
		s.wanting.push(q)
		signal(s.claimNow)
	}
}

// What one claim asks for at most.
const (
	claimQueues = 64
	claimRows   = 2048
)

// claimLoop fills queues from the database.
func (s *Sender) claimLoop(ctx context.Context) {
	pause := newBackoff()
	for {
		if !wait(ctx, s.claimNow) {
			return
		}
		for ctx.Err() == nil {
			queues, each := s.nextWanted()
			if len(queues) == 0 {
				break
			}
			err := s.claim(ctx, queues, each)
			if err != nil && ctx.Err() == nil {
				s.c.Log.Error("cannot claim webhook deliveries", "err", err)
			}
			pause.Wait(ctx, err)
		}
	}
}

// nextWanted takes the queues that have waited longest, with as much for each.
func (s *Sender) nextWanted() (queues []*queue, each int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := s.wanting.len(); n > 0 && len(queues) < claimQueues; n-- {
		q := s.wanting.pop()
		room := min(s.room(q), claimRows)
		if each == 0 {
			each = room
		}
		if room == 0 || room < each || (len(queues)+1)*each > claimRows {
			s.wanting.push(q) // its turn comes with others like it, or when outcomes are written
			continue
		}
		queues = append(queues, q)
	}
	return queues, each
}

func (s *Sender) claim(ctx context.Context, queues []*queue, each int) error {
	r := central.ClaimRequest{Owner: s.c.Owner, Lease: s.c.Lease, Each: each, Holds: s.holds}
	seen := make([]int, len(queues))
	s.mu.Lock()
	s.claiming = true
	for i, q := range queues {
		r.Subscriptions, seen[i] = append(r.Subscriptions, q.id), q.moreSeen
		r.Held = max(r.Held, q.held)
	}
	s.mu.Unlock()
	began, version := time.Now(), s.c.Store.StandingsVersion()
	claims, rest, err := s.c.Store.ClaimFrom(ctx, r)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.part()
	now := time.Now()
	for i, q := range queues {
		q.wanted = false
		q.more = err != nil || q.moreSeen != seen[i]
	}
	got := make(map[string]int, len(queues))
	for _, c := range claims {
		got[c.SubscriptionID]++
		s.hold(c, began, version, now)
	}
	for _, r := range rest {
		q := s.queue(r.SubscriptionID, now)
		switch {
		case r.DueAt.After(now):
			s.dueLater(q, r.DueAt)
		case got[r.SubscriptionID] > 0:
			q.more = true
			q.grow(s.c.Window)
		default: // another process is just claiming it
			s.dueLater(q, now.Add(50*time.Millisecond))
		}
	}
	for _, q := range queues {
		s.want(q)
	}
	s.schedule(now)
	return err
}

// part lets go of what was done with while a claim was under way. s.mu is held.
func (s *Sender) part() {
	for _, id := range s.parted {
		delete(s.held, id)
	}
	s.claiming, s.parted = false, s.parted[:0]
}

func (s *Sender) holds(deliveryID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.held[deliveryID]
	return held
}

// scanLoop finds queues that nobody told of: those of earlier processes, of
// other ones, and what an operator queued again.
func (s *Sender) scanLoop(ctx context.Context) {
	pause := newBackoff()
	for {
		began := time.Now()
		err := s.scan(ctx)
		if err != nil && ctx.Err() == nil {
			s.c.Log.Error("cannot look for webhook deliveries", "err", err)
		}
		pause.Wait(ctx, err)
		// A scan takes a part of the time that is the same however long it takes.
		took := time.Since(began)
		if !sleep(ctx, max(scanLeast, 10*took)) {
			return
		}
		timer := time.NewTimer(max(s.c.Poll-time.Since(began), 0))
		select {
		case <-ctx.Done():
		case <-s.scanNow:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// scanLeast is the shortest time between two scans.
const scanLeast = 5 * time.Millisecond

// idleTime is how long a queue is remembered that nothing happens in.
const idleTime = 10 * time.Minute

func (s *Sender) scan(ctx context.Context) error {
	waiting, err := s.c.Store.Queues(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, w := range waiting {
		q := s.queue(w.SubscriptionID, now)
		if w.DueAt.After(now) {
			s.dueLater(q, w.DueAt)
			continue
		}
		q.more = true
		q.moreSeen++
		s.want(q)
	}
	if now.Sub(s.sweptAt) > time.Minute {
		s.sweptAt = now
		for id, q := range s.queues {
			if q.held == 0 && !q.more && !q.wanted && !q.checking && !q.ringed &&
				q.alarmAt.IsZero() && now.Sub(q.usedAt) > idleTime {
				delete(s.queues, id)
			}
		}
	}
	return nil
}

// checkMost is how many subscriptions one query asks about.
const checkMost = 256

// checkLoop reads again how subscriptions stand before something is sent.
func (s *Sender) checkLoop(ctx context.Context) {
	pause := newBackoff()
	for {
		if !wait(ctx, s.checkNow) {
			return
		}
		for ctx.Err() == nil {
			s.mu.Lock()
			n := min(len(s.checks), checkMost)
			queues := s.checks[:n:n]
			s.checks = s.checks[n:]
			s.mu.Unlock()
			if n == 0 {
				break
			}
			err := s.check(ctx, queues)
			if err != nil && ctx.Err() == nil {
				s.c.Log.Error("cannot read how webhook subscriptions stand", "err", err)
			}
			pause.Wait(ctx, err)
		}
	}
}

func (s *Sender) check(ctx context.Context, queues []*queue) error {
	ids := make([]string, len(queues))
	for i, q := range queues {
		ids[i] = q.id
	}
	began, version := time.Now(), s.c.Store.StandingsVersion()
	standings, err := s.c.Store.Standings(ctx, ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, q := range queues {
		q.checking = false
		if err != nil {
			continue
		}
		s.stand(q, standings[q.id], began, version) // none: the zero Standing, not deliverable
		if !q.deliver {
			s.cancel(q)
		}
	}
	for _, q := range queues {
		s.offer(q, now) // asks again when err != nil
	}
	s.schedule(now)
	return err
}

// alarmLoop looks at queues at their times.
func (s *Sender) alarmLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.alarmNow:
		case <-timer.C:
		}
		if next := s.ring(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// ring looks at the queues whose time has come, and returns the next such time.
func (s *Sender) ring(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.moveSlow(now)
	for q := s.alarms.due(now); q != nil; q = s.alarms.due(now) {
		if !q.next.IsZero() && !q.next.After(now) {
			q.next = time.Time{}
			q.more = true
			q.moreSeen++
			s.want(q)
		}
		s.setAlarm(q, q.next)
		s.offer(q, now)
	}
	s.schedule(now)
	if at := s.alarms.next(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return next
}
