package ratelimit

import "math"

const (
	// activeFor is for how long, in microseconds, a node that reported a key
	// counts as drawing on it.
	activeFor = 10_000_000
	// youngFor is how long, in microseconds, a node must have drawn on a key
	// before its pace is believed.
	youngFor = 500_000
	// strangeAfter is the pause, in microseconds, after which a node's pace has
	// to be learnt anew.
	strangeAfter = 60_000_000
	// crowd is how many other nodes must have woken within youngFor for their
	// pace not to be believed. Each took itself for alone when it began, and one
	// that is used now and then is no reason to hold back a burst elsewhere.
	crowd = 3
	// paceOver is the time constant, in microseconds, over which a node's pace
	// is averaged.
	paceOver = 1_000_000
	// keepFor is for how long, in microseconds, a counter is remembered after
	// its last report. Longer than any message can be under way.
	keepFor = 600_000_000
)

// Share is what the origin tells a node of one key.
type Share struct {
	Missing int64 `json:"m"`           // grains missing from the bucket
	Spent   int64 `json:"c"`           // the node's own counter that this takes in
	Nodes   int64 `json:"n"`           // that draw on the key, the receiver among them
	Others  int64 `json:"o,omitempty"` // what the other nodes spend, grains a second
	Young   bool  `json:"y,omitempty"` // another node's pace is not known yet
}

// Nothing is the share of a key that is not to be counted: the report is
// confirmed, and nothing remains.
func (r Report) Nothing() Share {
	return Share{Missing: min(max(r.Limit, 1), MaxLimit) * Token, Spent: r.Spent, Nodes: 1}
}

// Ledger is one key's bucket as the origin knows it. The zero Ledger is that of
// a key nobody has reported; it takes the first reporter's word for how the
// bucket stood, so that an origin which has just started forgives nobody.
type Ledger struct {
	bucket Bucket
	limit  int64
	known  bool
	nodes  map[Life]*drawer
}

// drawer is one node, in one of its lives, that draws on the key.
type drawer struct {
	spent int64   // highest counter seen
	since int64   // when it began to draw after a pause, microseconds
	woke  int64   // when it last reported after it had heard nothing for FreshFor
	seen  int64   // when it last reported, microseconds
	last  int64   // when its counter last rose, microseconds
	pace  float64 // grains a second as of last
}

// Merge takes in a report of node, which stands for one life of its counter: a
// node that lost its file reports as another. What it spent while it was cut off
// counts as far as it is still owed. It is idempotent, and the order of
// reports makes no difference to what is spent. begun tells whether nobody could
// know that the node draws on the key.
func (l *Ledger) Merge(node Life, r Report, now int64) (begun bool) {
	limit := min(max(r.Limit, 1), MaxLimit)
	if l.nodes == nil {
		l.nodes = make(map[Life]*drawer)
	}
	l.limit = limit
	if !l.known {
		l.known = true
		l.bucket = Bucket{Missing: min(max(r.Missing, 0), debtMost*limit*Token), At: now}
	}
	l.bucket.Settle(limit, now)
	d := l.nodes[node]
	if d == nil {
		d = &drawer{spent: min(max(r.Acked, 0), max(r.Spent, 0)), since: now, last: now}
		l.nodes[node] = d
		begun = true
	} else if now-d.seen >= strangeAfter {
		d.since, d.pace = now, 0
	}
	if begun = begun || now-d.seen >= FreshFor; begun {
		d.woke = now
	}
	d.seen = now
	d.spent = max(d.spent, min(r.From, r.Spent)) // what lies between is of an account that was settled
	news := r.Spent - d.spent
	if news <= 0 {
		return begun
	}
	d.spent = r.Spent
	grains := min(news, debtMost*limit) * Token
	if r.Late {
		grains = min(grains, max(r.Owed, 0))
	}
	l.bucket.spend(limit, grains)
	// An exponential average of a flow seen in lumps: what was decays with the
	// time gone by, and the lump counts as spread over the time constant.
	d.pace = d.pace*math.Exp(-float64(now-d.last)/paceOver) +
		float64(min(grains, MaxLimit*Token))/(paceOver/1e6)
	d.last = now
	return begun
}

// Share is what node is to be told at now.
func (l *Ledger) Share(node Life, now int64) Share {
	l.bucket.Settle(max(l.limit, 1), now)
	s := Share{Missing: l.bucket.Missing, Nodes: 1}
	woken := 0
	for name, d := range l.nodes {
		if name == node {
			s.Spent = d.spent
			continue
		}
		if now-d.seen >= activeFor {
			continue
		}
		s.Nodes++
		if now-d.woke < youngFor {
			woken++
		}
		if now-d.since < youngFor {
			s.Young = true
			continue
		}
		s.Others += int64(d.pace * math.Exp(-float64(now-d.last)/paceOver))
	}
	s.Young = s.Young || woken >= crowd
	return s
}

// Active calls yield for every node that draws on the key at now.
func (l *Ledger) Active(now int64, yield func(Life)) {
	for name, d := range l.nodes {
		if now-d.seen < activeFor {
			yield(name)
		}
	}
}

// Forget drops counters that nobody reported for long, and tells whether the ledger
// says nothing any more and may be dropped whole.
func (l *Ledger) Forget(now int64) bool {
	for name, d := range l.nodes {
		if now-d.seen >= keepFor {
			delete(l.nodes, name)
		}
	}
	l.bucket.Settle(max(l.limit, 1), now)
	return len(l.nodes) == 0 && l.bucket.Missing == 0
}
