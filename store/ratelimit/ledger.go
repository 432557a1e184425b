package ratelimit

import "math"

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
	Others        int64 `json:"o,omitempty"` // what the other nodes spend, grains a second
	PaceIsUnknown bool  `json:"y,omitempty"` // another node has only just begun
}

// NothingLeft returns a share for a key that is not counted: it confirms the
// report, and nothing remains.
func (r Report) NothingLeft() Share {
	return Share{Missing: clampLimit(r.Limit) * Token, Spent: r.Spent, Nodes: 1}
}

// Uncounted returns a share that confirms a report and leaves the node's account as
// it is.
func (r Report) Uncounted() Share {
	limit := clampLimit(r.Limit)
	most := maxDebt * limit
	missing := min(max(r.Missing, 0), most*Token) + min(max(r.Spent-r.Acked, 0), most)*Token
	return Share{Missing: missing, Spent: r.Spent, Nodes: 1}
}

// Ledger is one key's bucket as the origin knows it. The zero Ledger is that of
// a key nobody has reported. It begins with what the first reporter says is
// missing, so an origin that has just started forgives nobody.
type Ledger struct {
	bucket   Bucket
	limit    int64
	known    bool
	counters map[Reporter]*counter
}

// counter holds what one reporter has counted of the key.
type counter struct {
	spent int64   // highest count seen
	since int64   // when the node began to draw on the key after a pause, microseconds
	woke  int64   // when it last reported after FreshFor without a report
	seen  int64   // when it last reported
	rose  int64   // when the count last rose
	pace  float64 // grains a second as of rose
}

// Merge merges a report. It is idempotent, and the order of reports makes no
// difference to what is spent. What a node spent while it was cut off counts as
// far as it is still owed. joined reports whether nobody could know that the
// node draws on the key.
func (l *Ledger) Merge(from Reporter, r Report, now int64) (joined bool) {
	limit := clampLimit(r.Limit)
	if l.counters == nil {
		l.counters = make(map[Reporter]*counter)
	}
	l.limit = limit
	if !l.known {
		l.known = true
		l.bucket = Bucket{Missing: min(max(r.Missing, 0), maxDebt*limit*Token), At: now}
	}
	l.bucket.Settle(limit, now)
	c := l.counters[from]
	if c == nil {
		c = &counter{spent: min(max(r.Acked, 0), max(r.Spent, 0)), since: now, rose: now}
		l.counters[from] = c
		joined = true
	} else if now-c.seen >= relearnAfter {
		c.since, c.pace = now, 0
	}
	if joined = joined || now-c.seen >= FreshFor; joined {
		c.woke = now
	}
	c.seen = now
	c.spent = max(c.spent, min(r.From, r.Spent)) // what lies between is of an account that was settled
	news := r.Spent - c.spent
	if news <= 0 {
		return joined
	}
	c.spent = r.Spent
	grains := min(news, maxDebt*limit) * Token
	if r.Late {
		grains = min(grains, max(r.Owed, 0))
	}
	l.bucket.spend(limit, grains)
	// An exponential average of a flow seen in lumps: what was there decays with
	// time, and the lump counts as spread over the time constant.
	c.pace = c.paceAt(now) + float64(min(grains, MaxLimit*Token))/(paceOver/1e6)
	c.rose = now
	return joined
}

func (c *counter) paceAt(now int64) float64 {
	return c.pace * math.Exp(-float64(now-c.rose)/paceOver)
}

// Share returns what to tell a node at now.
func (l *Ledger) Share(to Reporter, now int64) Share {
	l.bucket.Settle(max(l.limit, 1), now)
	s := Share{Missing: l.bucket.Missing, Nodes: 1}
	woken := 0
	for from, c := range l.counters {
		if from == to {
			s.Spent = c.spent
			continue
		}
		if now-c.seen >= activeFor {
			continue
		}
		s.Nodes++
		if now-c.woke < learnFor {
			woken++
		}
		if now-c.since < learnFor {
			s.PaceIsUnknown = true
			continue
		}
		s.Others += int64(c.paceAt(now))
	}
	s.PaceIsUnknown = s.PaceIsUnknown || woken >= manyWoken
	return s
}

// Active calls yield for every reporter that draws on the key at now.
func (l *Ledger) Active(now int64, yield func(Reporter)) {
	for from, c := range l.counters {
		if now-c.seen < activeFor {
			yield(from)
		}
	}
}

// Forget drops counters that were not reported for long. It reports whether the
// ledger says nothing more and may be dropped.
func (l *Ledger) Forget(now int64) bool {
	for from, c := range l.counters {
		if now-c.seen >= keepFor {
			delete(l.counters, from)
		}
	}
	l.bucket.Settle(max(l.limit, 1), now)
	return len(l.counters) == 0 && l.bucket.Missing == 0
}
