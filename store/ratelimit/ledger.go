package ratelimit

import (
	"cmp"
	"container/list"
	"math"
	"slices"
)

const (
	// activeFor is how long, in microseconds, a node that reported a key counts
	// as drawing on it.
	activeFor = 10_000_000
	// learnFor is how long, in microseconds, a node must have drawn on a key
	// before its pace is taken for known.
	learnFor = 500_000
	// relearnAfter is the pause, in microseconds, after which a node's pace is
	// learnt anew.
	relearnAfter = 60_000_000
	// manyWoken is how many other nodes must have woken within learnFor for the
	// pace of all to be unknown: each took itself to be alone when it began. One
	// that is used now and then is no reason to hold back a burst elsewhere.
	manyWoken = 3
	// paceOver is the time constant, in microseconds, over which a node's pace
	// is averaged.
	paceOver = 1_000_000
	// keepFor is how long, in microseconds, a counter is remembered after its
	// last report. It is longer than any message can be under way.
	keepFor = 600_000_000
)

// Share describes one key's bucket at the origin to a node.
type Share struct {
	Missing       int64 `json:"m"`           // grains missing from the bucket
	Spent         int64 `json:"c"`           // the node's own counter, as the bucket takes it in
	Nodes         int64 `json:"n"`           // nodes that draw on the key, the receiver among them
	Others        int64 `json:"o,omitempty"` // what the other nodes spend, grains a second, at most MaxLimit*Token
	PaceIsUnknown bool  `json:"y,omitempty"` // another node has only just begun: Others says little for learnFor
}

// NothingLeft returns a share for a key that is not counted: it confirms the
// report, and nothing remains.
func (r Report) NothingLeft() Share {
	return Share{Missing: clampLimit(r.Limit) * Token, Spent: r.Spent, Nodes: 1}
}

// Uncounted returns a share that confirms a report and leaves the node's account as
// it is. Unless the report is late, what the account has regained since its last share, a
// sixth of the bucket at most, may be missing again.
func (r Report) Uncounted() Share {
	limit := clampLimit(r.Limit)
	missing := min(max(r.Missing, 0), maxDebt*limit*Token) + r.owes(r.Acked, limit)
	return Share{Missing: missing, Spent: r.Spent, Nodes: 1}
}

// owes returns what a bucket is to lack, in grains, for what was spent beyond a count.
func (r Report) owes(count, limit int64) int64 {
	grains := min(max(r.Spent-count, 0), maxDebt*limit) * Token
	if r.Late {
		grains = min(grains, max(r.Owed, 0))
	}
	return grains
}

// Ledger is one key's bucket as the origin knows it. The zero Ledger is that of
// a key nobody has reported. What a report says was confirmed, and the ledger does not know,
// another origin took off its bucket, or an earlier process: the ledger's own then lacks at
// least what the report says was missing. So an origin that has just started forgives nobody,
// and one that was cut off makes no debt of what the bucket has regained since. It must not
// be copied.
//
// What Share says of all nodes together is kept as a sum, so that a report costs the
// same however many nodes draw on the key.
type Ledger struct {
	bucket   Bucket
	limit    int64
	counters map[Reporter]*counter // nil while there are few

	now     int64         // the latest time that it was given
	seen    list.List     // all counters, the one that reported longest ago first
	active  *list.Element // the first of seen that draws on the key; nil: none does
	actives int64         // from active on
	pace    float64       // of those together, grains a second as of paced
	paced   int64
	woken   []*counter // within learnFor, in order
	begun   int        // of woken, those whose pace is not known
}

// counter holds what one reporter has counted of the key.
type counter struct {
	reporter Reporter
	place    *list.Element // in seen
	active   bool          // seen within activeFor
	spent    int64         // highest count seen; -1: none yet
	since    int64         // when the node began to draw on the key after a pause, microseconds
	woke     int64         // when it last reported after FreshFor without a report
	seen     int64         // when it last reported
	rose     int64         // when the count last rose
	pace     float64       // grains a second as of rose
}

// clockSlack is how far, in microseconds, the times of reports may lie apart that are
// merged in another order than they came in.
const clockSlack = 1_000_000

// moveTo takes the sums to now, and returns the time to go by: the latest one where
// now lies a little before it. A clock that was put back further makes every node
// begin to count as seen at that time.
func (l *Ledger) moveTo(now int64) int64 {
	switch {
	case now >= l.now:
	case l.now-now < clockSlack:
		now = l.now
	default:
		l.putBack(now)
	}
	l.now = now
	for l.active != nil {
		c := l.active.Value.(*counter)
		if now-c.seen < activeFor {
			break
		}
		l.active = l.active.Next()
		l.addPace(-c.paceAt(now))
		l.actives--
		c.active = false
	}
	if l.actives == 0 {
		l.pace = 0 // which rounding may have left
	}
	for len(l.woken) > 0 && now-l.woken[0].woke >= learnFor {
		if l.woken[0].since == l.woken[0].woke {
			l.begun--
		}
		l.woken = l.woken[1:]
	}
	for first := l.seen.Front(); first != nil && now-first.Value.(*counter).seen >= keepFor; first = l.seen.Front() {
		delete(l.counters, first.Value.(*counter).reporter)
		l.seen.Remove(first)
	}
	return now
}

// putBack takes the sums back to now, and with them whatever happened later.
func (l *Ledger) putBack(now int64) {
	l.active, l.actives, l.pace, l.paced, l.woken, l.begun = nil, 0, 0, now, nil, 0
	for e := l.seen.Front(); e != nil; e = e.Next() {
		c := e.Value.(*counter)
		c.since, c.woke, c.seen, c.rose = min(c.since, now), min(c.woke, now), min(c.seen, now), min(c.rose, now)
		if c.active = now-c.seen < activeFor; c.active {
			if l.active == nil {
				l.active = e
			}
			l.actives++
			l.pace += c.paceAt(now)
		}
		if now-c.woke < learnFor {
			l.woken = append(l.woken, c)
			if c.since == c.woke {
				l.begun++
			}
		}
	}
	slices.SortFunc(l.woken, func(a, b *counter) int { return cmp.Compare(a.woke, b.woke) })
}

// fewCounters is up to how many counters a ledger has without a map of them.
const fewCounters = 4

func (l *Ledger) find(r Reporter) *counter {
	if l.counters != nil {
		return l.counters[r]
	}
	for e := l.seen.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*counter); c.reporter == r {
			return c
		}
	}
	return nil
}

func (l *Ledger) add(c *counter) {
	c.place = l.seen.PushBack(c)
	if l.counters == nil && l.seen.Len() > fewCounters {
		l.counters = make(map[Reporter]*counter, l.seen.Len())
		for e := l.seen.Front(); e != nil; e = e.Next() {
			l.counters[e.Value.(*counter).reporter] = e.Value.(*counter)
		}
	} else if l.counters != nil {
		l.counters[c.reporter] = c
	}
}

// addPace adds to the pace of all active nodes at the ledger's time.
func (l *Ledger) addPace(grains float64) {
	l.pace = decayed(l.pace, l.now-l.paced) + grains
	l.paced = l.now
}

// count returns the counter of a reporter that reports at now, as the last one seen.
// joined reports whether nobody could know that it draws on the key.
func (l *Ledger) count(from Reporter, now int64) (c *counter, joined bool) {
	if c = l.find(from); c == nil {
		c = &counter{reporter: from, spent: -1, since: now, rose: now}
		l.add(c)
		joined = true
	} else {
		if now-c.seen >= relearnAfter {
			c.since, c.pace = now, 0
		}
		joined = now-c.seen >= FreshFor
		if l.active == c.place {
			l.active = c.place.Next()
		}
		l.seen.MoveToBack(c.place)
	}
	if l.active == nil {
		l.active = c.place // all others are before it, and not active
	}
	if c.seen = now; joined {
		c.woke = now
		l.woken = append(l.woken, c)
		if c.since == now {
			l.begun++
		}
	}
	return c, joined
}

// Merge merges a report. It is idempotent, and the order of reports makes no
// difference to what is spent. What a node spent while it was cut off counts as
// far as it is still owed, and what it spent while only this origin was, as far as
// the node knows it to be missing. joined reports whether nobody could know that
// the node draws on the key.
func (l *Ledger) Merge(from Reporter, r Report, now int64) (joined bool) {
	limit := clampLimit(r.Limit)
	now = l.moveTo(now)
	l.limit = limit
	l.bucket.Settle(limit, now)
	c, joined := l.count(from, now)
	was := 0.0
	if c.active {
		was = c.paceAt(now)
	} else {
		c.active = true
		l.actives++
	}
	// What lies below From is of an account that was settled.
	if known := max(0, min(max(r.Acked, r.From), r.Spent)); known > c.spent {
		c.spent = known
		l.bucket.Missing = max(l.bucket.Missing, min(r.Missing, maxDebt*limit*Token))
	}
	if r.Spent > c.spent {
		grains := r.owes(c.spent, limit)
		c.spent = r.Spent
		l.bucket.spend(limit, grains)
		// An exponential average of a flow seen in lumps: what was there decays with
		// time, and the lump counts as spread over the time constant.
		c.pace = c.paceAt(now) + float64(min(grains, MaxLimit*Token))/(paceOver/1e6)
		c.rose = now
	}
	l.addPace(c.paceAt(now) - was)
	return joined
}

func (c *counter) paceAt(now int64) float64 { return decayed(c.pace, now-c.rose) }

// decayed returns what is left of a pace after some microseconds.
func decayed(pace float64, elapsed int64) float64 {
	return pace * math.Exp(-float64(elapsed)/paceOver)
}

// Share returns what to tell a node at now.
func (l *Ledger) Share(to Reporter, now int64) Share {
	now = l.moveTo(now)
	l.bucket.Settle(max(l.limit, 1), now)
	s := Share{Missing: l.bucket.Missing, Nodes: 1 + l.actives}
	others, woken, begun := decayed(l.pace, now-l.paced), len(l.woken), l.begun
	if c := l.find(to); c != nil {
		s.Spent = c.spent
		if c.active {
			s.Nodes--
			others -= c.paceAt(now)
		}
		if now-c.woke < learnFor {
			woken--
			if c.since == c.woke {
				begun--
			}
		}
	}
	s.PaceIsUnknown = begun > 0 || woken >= manyWoken
	s.Others = int64(min(max(0, others), MaxLimit*Token))
	return s
}

// Active calls yield for every reporter that draws on the key at now.
func (l *Ledger) Active(now int64, yield func(Reporter)) {
	l.moveTo(now)
	for e := l.active; e != nil; e = e.Next() {
		yield(e.Value.(*counter).reporter)
	}
}

// Forget drops counters that were not reported for long. It reports whether the
// ledger says nothing more and may be dropped.
func (l *Ledger) Forget(now int64) bool {
	l.bucket.Settle(max(l.limit, 1), l.moveTo(now))
	return l.seen.Len() == 0 && l.bucket.Missing == 0
}
