package ratelimit

import (
	"container/list"
	"runtime"
	"sync"
)

// Reporter is a node in one life of its counters: a node that lost the file of
// its counters reports with another Boot.
type Reporter struct{ Node, Boot string }

// Merger merges the reports of all keys and nodes at the origin. The zero Merger
// is ready. Its methods may be called at the same time, and none keeps the others
// waiting for long, however many keys and nodes there are.
type Merger struct {
	mu      sync.Mutex
	ledgers map[string]*entry // by key
	merged  list.List         // all entries, the one that was reported longest ago first
	news    []*entry          // others are to hear of their reports
	peers   map[Reporter]*peer
	waiting []*peer // those with keys to hear of
}

// entry is the ledger of a key.
type entry struct {
	Ledger
	key   string
	place *list.Element // in merged
	at    int64         // when it was last reported or looked at, microseconds

	fresh  bool     // it is in news
	teller Reporter // whose report is the news; it knows
	many   bool     // others have reported besides
	joined bool     // one who reported has just begun to draw on the key
}

// peer is a node that is to hear what others spend.
type peer struct {
	reporter Reporter
	keys     map[string]*entry // that others drew on; not empty: it is in waiting
	shared   int64             // when Due last named it, microseconds
	told     bool              // Due has named it
}

// DueEvery is how often, in microseconds, Due names a reporter at most, unless
// another node has just begun to draw on one of its keys. After a pause a share
// is due at once: a node that waits for a key's next token is to hear soon that
// another took it.
const DueEvery = 50_000

// Merge merges reports by key and returns the shares that answer them. Nodes
// that draw on the same keys are named by the next Due.
func (m *Merger) Merge(from Reporter, reports map[string]Report, now int64) map[string]Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ledgers == nil {
		m.ledgers = make(map[string]*entry)
		m.peers = make(map[Reporter]*peer)
	}
	shares := make(map[string]Share, len(reports))
	for key, r := range reports {
		e := m.ledgers[key]
		if e == nil {
			e = &entry{key: key}
			e.place = m.merged.PushBack(e)
			m.ledgers[key] = e
		} else {
			m.merged.MoveToBack(e.place)
		}
		e.at = now
		joined := e.Merge(from, r, now)
		shares[key] = e.Share(from, now)
		if shares[key].Nodes > 1 {
			m.note(e, from, joined)
		}
	}
	return shares
}

// note queues a report for the others, who hear of it with the next Due.
func (m *Merger) note(e *entry, from Reporter, joined bool) {
	if !e.fresh {
		e.fresh, e.teller, e.many, e.joined = true, from, false, false
		m.news = append(m.news, e)
	}
	e.many = e.many || e.teller != from
	e.joined = e.joined || joined
}

// spread takes the news to those who draw on the keys.
func (m *Merger) spread(now int64) {
	for _, e := range m.news {
		e.Active(now, func(r Reporter) {
			if r == e.teller && !e.many {
				return
			}
			p := m.peers[r]
			if p == nil {
				p = &peer{reporter: r}
				m.peers[r] = p
			}
			if p.keys == nil {
				p.keys = make(map[string]*entry)
				m.waiting = append(m.waiting, p)
			}
			p.keys[e.key] = e
			if e.joined {
				p.told = false // due at once: it takes itself to be alone
			}
		})
		e.fresh = false
	}
	clear(m.news)
	m.news = m.news[:0]
}

// Due returns the shares that are due now to nodes whose keys others drew on,
// and whether more will be due later.
func (m *Merger) Due(now int64) (out map[Reporter]map[string]Share, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spread(now)
	later := m.waiting[:0]
	for _, p := range m.waiting {
		if since := now - p.shared; p.told && since >= 0 && since < DueEvery {
			later = append(later, p)
			continue
		}
		shares := make(map[string]Share, len(p.keys))
		for key, e := range p.keys {
			shares[key] = e.Share(p.reporter, now)
		}
		if out == nil {
			out = make(map[Reporter]map[string]Share)
		}
		out[p.reporter] = shares
		p.keys, p.shared, p.told = nil, now, true
	}
	clear(m.waiting[len(later):])
	m.waiting = later
	return out, len(later) > 0
}

// forgetAtOnce bounds the ledgers that are looked at while reports wait.
const forgetAtOnce = 64

// Forget drops what says nothing any more. Call it from time to time. It looks at
// ledgers that were not reported for long, and at no others, and lets reports in
// between. After a clock was put back it looks at those of a later time too, which
// count as of now.
func (m *Merger) Forget(now int64) {
	for m.forgetSome(now) {
		runtime.Gosched() // else it locks again before a report that waits has woken
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for r, p := range m.peers {
		if since := now - p.shared; p.keys == nil && (since < 0 || since >= DueEvery) {
			delete(m.peers, r)
		}
	}
}

func (m *Merger) forgetSome(now int64) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range forgetAtOnce {
		first := m.merged.Front()
		if first == nil {
			return false
		}
		e := first.Value.(*entry)
		if since := now - e.at; since >= 0 && since < keepFor {
			return false
		}
		if e.Forget(now) {
			m.merged.Remove(first)
			delete(m.ledgers, e.key)
			continue
		}
		e.at = now // a debt, or of a later time: it is looked at again
		m.merged.MoveToBack(first)
	}
	return true
}

// Len returns the number of keys that have a ledger.
func (m *Merger) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ledgers)
}
