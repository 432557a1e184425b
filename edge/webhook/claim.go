package webhook

import (
	"context"
	"slices"
	"time"

	"partneredge/edge/backoff"
	"partneredge/store/central/deliveries"
)

// accept is the Claimer's Accept: it runs inside the database's transaction. While
// older deliveries wait in the database, claims fill the queue first, so that
// neither the old nor the new are put off for good.
func (s *Sender) accept(subscriptionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(subscriptionID, time.Now())
	if n := q.items.len(); n > 0 && n >= q.window && time.Since(q.items.first().CreatedAt) < s.c.growWithin() {
		q.grow(s.c.Window) // it was filled in no time
	}
	if s.stopping || s.room(q) == 0 || (q.more && q.items.len() > q.capacity()/4) {
		q.hasMore()
		return false
	}
	q.acceptedAt = s.c.Store.EndpointsVersion()
	return true
}

// claimed is the Claimer's Claimed: what was accepted has been committed.
func (s *Sender) claimed(claims []deliveries.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range claims {
		s.hold(c, c.CreatedAt, s.queue(c.SubscriptionID, now).acceptedAt, now)
	}
	s.schedule(now)
}

// heldBytesMost is the most that the bodies and answers of the deliveries in memory may
// take together.
const heldBytesMost = 64 << 20

// room returns how many more deliveries q may hold. Endpoints that are not trusted
// share one half of the memory, so that they cannot fill it. s.mu is held.
func (s *Sender) room(q *queue) int {
	free, bytes := s.c.Held-len(s.held), heldBytesMost-s.heldBytes
	if !q.trusted {
		free, bytes = min(free, s.c.Held/2-s.untrusted), min(bytes, heldBytesMost/2-s.untrustedBytes)
	}
	if bytes <= 0 {
		free = 0
	}
	return max(min(q.capacity()-q.items.len(), max(free, windowSure-q.held)), 0)
}

// keep changes what q holds, by deliveries and bytes. s.mu is held.
func (s *Sender) keep(q *queue, n, bytes int) {
	q.held += n
	q.heldBytes += bytes
	s.heldBytes += bytes
	if !q.trusted {
		s.untrusted += n
		s.untrustedBytes += bytes
	}
}

// recount counts anew what q holds when its endpoint became trusted, or no longer is.
// s.mu is held.
func (s *Sender) recount(q *queue) {
	if q.trusted == q.health.trusted() {
		return
	}
	n, bytes := q.held, q.heldBytes
	s.keep(q, -n, -bytes)
	q.trusted = !q.trusted
	s.keep(q, n, bytes)
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

// hold puts a delivery into its queue that was leased, and read, at readAt and
// version. s.mu is held.
func (s *Sender) hold(c deliveries.Claim, readAt time.Time, version uint64, now time.Time) {
	if _, already := s.held[c.ID]; already {
		return
	}
	if readAt.After(now) { // by the database's clock, which may have been put back since
		readAt = now
	}
	i := &item{Claim: c, until: readAt.Add(s.c.Lease)}
	s.held[c.ID] = struct{}{}
	q := s.queue(c.SubscriptionID, now)
	q.usedAt = now
	if q.account == nil {
		s.join(q, c.AccountID)
		if from := c.Endpoint.FailingFrom; !from.IsZero() && now.Sub(from) >= failingKnown {
			q.health.hung() // as if it had: nothing else is known
		}
	}
	s.keep(q, 1, i.size())
	q.endpoint.set(c.Endpoint, readAt, now, version)
	if q.givesUp(&c, now) {
		s.giveUp(q, i)
		return
	}
	q.items.push(i)
	if s.mayCancel(q) {
		s.cancel(q, now)
		return
	}
	s.offer(q, now)
}

// failingKnown is the time after which an endpoint that fails, by the database, gets its
// first try from another lane than that of those that may be well.
const failingKnown = time.Minute

// join makes q one of an account's queues. s.mu is held.
func (s *Sender) join(q *queue, id string) {
	a := s.accounts[id]
	if a == nil {
		a = &account{id: id}
		s.accounts[id] = a
	}
	a.queues++
	q.account = a
}

// drop forgets a queue. s.mu is held.
func (s *Sender) drop(q *queue) {
	delete(s.queues, q.id)
	if a := q.account; a != nil {
		if a.queues--; a.queues == 0 {
			delete(s.accounts, a.id)
		}
	}
}

// refill asks for more of a queue when the database may have some and there is
// room. s.mu is held.
func (s *Sender) refill(q *queue) {
	if q.more && !q.refilling && !s.stopping && q.low() {
		q.refilling = true
		s.refills.push(q)
		s.claimNow.Send()
	}
}

// The most that one claim asks for, and queues that it looks at to find those with room.
const (
	claimQueues = 64
	claimRows   = 2048
	claimLooks  = 4 * claimQueues
)

// nextRefills takes the queues that have waited longest and have room for each. One time
// in four it begins with those that hang, so that the others cannot put them off for
// good.
func (s *Sender) nextRefills() (queues []*queue, each int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	first, second := &s.refills.first, &s.refills.second
	if s.claims%4 == 0 {
		first, second = second, first
	}
	share := claimRows
	if s.refills.len() > claimQueues { // a little for each, so that none waits for long
		share /= claimQueues
	}
	for _, from := range []*fifo[*queue]{first, second} {
		for n := min(from.len(), claimLooks); n > 0 && len(queues) < claimQueues; n-- {
			q := from.pop()
			room := min(s.room(q), share)
			if each == 0 {
				each = room
			}
			if room == 0 || room < each || (len(queues)+1)*each > claimRows {
				s.refills.push(q) // until others like it come, or outcomes are written
				continue
			}
			queues = append(queues, q)
		}
	}
	return queues, each
}

// claim fills queues from the database.
func (s *Sender) claim(ctx context.Context) (more bool, err error) {
	queues, each := s.nextRefills()
	if len(queues) == 0 {
		return false, nil
	}
	r := deliveries.ClaimRequest{Owner: s.c.Owner, Lease: s.c.Lease, Each: each, Holds: s.isHeld, Held: make(map[string]int)}
	seen := make([]int, len(queues))
	s.mu.Lock()
	s.claiming = true
	for i, q := range queues {
		r.Subscriptions, seen[i] = append(r.Subscriptions, q.id), q.moreSeen
		r.Held[q.id] = q.held
	}
	s.mu.Unlock()
	began, version := time.Now(), s.c.Store.EndpointsVersion()
	claims, others, err := s.c.Store.ClaimDeliveries(ctx, r)

	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i, q := range queues {
		q.refilling = false
		q.more = err != nil || q.moreSeen != seen[i]
		if err != nil || !slices.Contains(others, q.id) {
			q.behindFrom = time.Time{} // it has caught up, or waits for the database
		} else if q.behindFrom.IsZero() {
			q.behindFrom = now
		}
	}
	got := make(map[string]bool, len(queues))
	for _, c := range claims {
		got[c.SubscriptionID] = true
		s.hold(c, began, version, now)
	}
	for _, id := range others {
		q := s.queue(id, now)
		if !got[id] { // another process is just claiming them
			s.dueLater(q, now.Add(50*time.Millisecond))
			continue
		}
		q.more = true
		if !q.health.slow() {
			q.grow(s.c.Window)
		}
	}
	for _, q := range queues {
		s.refill(q)
	}
	for _, id := range s.written {
		delete(s.held, id)
	}
	s.claiming, s.written = false, s.written[:0]
	s.schedule(now)
	return true, err
}

func (s *Sender) isHeld(deliveryID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.held[deliveryID]
	return held
}

// scanPause is the shortest time between two scans.
const scanPause = 5 * time.Millisecond

// scanMost bounds the queues that one scan finds.
const scanMost = 2000

// scanLoop finds queues that no Claimer knows of: those of earlier processes, of
// other ones, and what an operator queued again.
func (s *Sender) scanLoop(ctx context.Context) {
	pause := newBackoff()
	for {
		began := time.Now()
		next, err := s.scan(ctx)
		if err != nil && ctx.Err() == nil {
			s.c.Log.Error("cannot look for webhook deliveries", "err", err)
		}
		pause.Wait(ctx, err)
		took := time.Since(began)
		// Scans take at most an eleventh of the time, and half while there is more to find.
		rest, poll := 10*took, s.c.poll-took
		if !next.IsZero() {
			poll = min(poll, time.Until(next))
			if poll <= 0 {
				rest = took
			}
		}
		if backoff.Pause(ctx, max(scanPause, rest)) != nil || !wait(ctx, s.scanNow, max(poll, 0)) {
			return
		}
	}
}

// scan learns of queues that are due. next is when there will be others.
func (s *Sender) scan(ctx context.Context) (next time.Time, err error) {
	due, next, err := s.c.Store.Due(ctx, scanMost, s.c.farthest())
	if err != nil {
		return next, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, id := range due {
		q := s.queue(id, now)
		q.hasMore()
		s.refill(q)
	}
	if now.Sub(s.sweptAt) > time.Minute {
		s.sweptAt = now
		s.sweep(now)
	}
	return next, nil
}

// idleTime without a delivery ends the memory of a queue.
const idleTime = 10 * time.Minute

// sweep forgets queues in which nothing happens. s.mu is held.
func (s *Sender) sweep(now time.Time) {
	for _, q := range s.queues {
		if q.held == 0 && !q.more && !q.refilling && !q.refreshing && q.waitsIn == nil &&
			q.lookAt.IsZero() && now.Sub(q.usedAt) > idleTime {
			s.drop(q)
		}
	}
}
