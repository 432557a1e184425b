package webhook

import (
	"context"
	"net/url"
	"time"

	"partneredge/store/central/deliveries"
	"partneredge/wasm/targeturl"
)

// endpoint holds a subscription as it was read, at a time and at a version of all
// subscriptions.
type endpoint struct {
	target      *target
	secrets     []string
	deliverable bool
	readAt      time.Time // when the reading began
	heardAt     time.Time // when the last one ended that knew no more
	version     uint64
}

// set takes in a reading that began at readAt and version and ended at heardAt, unless as
// much is known, or more.
func (e *endpoint) set(now deliveries.Endpoint, readAt, heardAt time.Time, version uint64) {
	if version < e.version {
		return
	}
	e.heardAt = heardAt
	if version == e.version && !readAt.After(e.readAt) {
		return
	}
	if e.target == nil || e.target.raw != now.TargetURL {
		e.target = newTarget(now.TargetURL)
	}
	e.secrets, e.deliverable, e.readAt, e.version = now.Secrets, now.Deliverable, readAt, version
}

// target is a subscription's URL, parsed once.
type target struct {
	raw    string
	url    *url.URL
	reason string // why it may not be called, by its form
}

func newTarget(raw string) *target {
	t := &target{raw: raw}
	if _, _, t.reason = targeturl.Parse(raw); t.reason != "" {
		return t
	}
	var err error
	if t.url, err = url.Parse(raw); err != nil {
		t.reason = targeturl.NotURL
		return t
	}
	t.url.Fragment, t.url.RawFragment = "", ""
	return t
}

// ensureFresh reports whether q's endpoint was read recently enough to send to it. Age
// counts from the end of a reading, since what comes from a slow database would be too old
// at once. ensureFresh queues the endpoint to be read again before it is too old: a moment
// later, with others that will be by then, since most of a read's cost is the same for any
// number. s.mu is held.
func (s *Sender) ensureFresh(q *queue, now time.Time) bool {
	age, version := now.Sub(q.endpoint.heardAt), s.c.Store.EndpointsVersion()
	fresh := age <= s.c.EndpointAge && q.endpoint.version == version
	if (!fresh || age > s.c.EndpointAge/2) && !q.refreshing {
		q.refreshing = true
		s.stale.push(q)
	}
	switch {
	case !q.refreshing:
	case !fresh:
		s.refreshNow.Send()
	default:
		s.refreshIn(s.c.EndpointAge / 8)
	}
	return fresh
}

// mayCancel reports whether nothing is to be sent to q's endpoint, as far as this process
// knows. What it has changed since is read before anything is cancelled. s.mu is held.
func (s *Sender) mayCancel(q *queue) bool {
	return !q.endpoint.deliverable && q.endpoint.version == s.c.Store.EndpointsVersion()
}

// refreshIn sets a timer that starts to read stale endpoints after d, unless one is set
// already. s.mu is held.
func (s *Sender) refreshIn(d time.Duration) {
	if !s.refreshSoon {
		s.refreshSoon = true
		time.AfterFunc(d, s.refreshNow.Send)
	}
}

// How many endpoints one query reads: fewer while queries take so long that what they
// read is too old to be used. So many queries run at a time, since on a busy machine
// most of a query's time is waiting. But fewer than refreshLeast endpoints are left to be
// read together when the query under way has ended, unless that takes EndpointAge.
const (
	refreshMost  = 256
	refreshLeast = 32
	refreshers   = 4
)

// slowRead bounds a read of endpoints: the log warns, once a minute, of one that takes longer.
const slowRead = 100 * time.Millisecond

// takeStale takes the queues whose endpoints are to be read next.
func (s *Sender) takeStale() (queues []*queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshSoon = false
	now := time.Now()
	if left := s.c.EndpointAge - now.Sub(s.refreshedAt); s.refreshing > 0 && left > 0 && s.stale.len() < refreshLeast {
		if s.stale.len() > 0 {
			s.refreshIn(left)
		}
		return nil
	}
	for s.stale.len() > 0 && len(queues) < s.refreshBatch {
		queues = append(queues, s.stale.pop())
	}
	if s.stale.len() > 0 {
		s.refreshNow.Send() // for another to take
	}
	if len(queues) > 0 {
		s.refreshing++
		s.refreshedAt = now
	}
	return queues
}

// refresh reads stale endpoints again.
func (s *Sender) refresh(ctx context.Context) (more bool, err error) {
	queues := s.takeStale()
	if len(queues) == 0 {
		return false, nil
	}
	ids := make([]string, len(queues))
	for i, q := range queues {
		ids[i] = q.id
	}
	began, version := time.Now(), s.c.Store.EndpointsVersion()
	endpoints, err := s.c.Store.Endpoints(ctx, ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.refreshing--
	took := now.Sub(began)
	if err == nil && took >= slowRead && now.Sub(s.slowReadAt) >= time.Minute {
		s.slowReadAt = now
		s.c.Log.Warn("reading webhook endpoints is slow: tries wait for it, and revocations by other origins take effect as late",
			"took", took, "endpoints", len(queues))
	}
	if took > s.c.EndpointAge/2 {
		s.refreshBatch = max(s.refreshBatch/2, refreshLeast)
	} else {
		s.refreshBatch = min(2*s.refreshBatch, refreshMost)
	}
	for _, q := range queues {
		q.refreshing = false
		if err == nil {
			q.endpoint.set(endpoints[q.id], began, now, version) // of a missing one: zero, so not deliverable
			if s.mayCancel(q) {
				s.cancel(q, now)
			}
		}
		s.refreshed(q, now) // asks again when err != nil
	}
	s.schedule(now)
	return true, err
}
