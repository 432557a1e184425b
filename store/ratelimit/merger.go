package ratelimit

import "sync"

// Reporter is a node in one life of its counters: a node that lost the file of
// its counters reports with another Boot.
type Reporter struct{ Node, Boot string }

// Merger merges the reports of all keys and nodes at the origin. The zero Merger
// is ready. Its methods may be called at the same time.
type Merger struct {
	mu      sync.Mutex
	ledgers map[string]*Ledger               // by key
	due     map[Reporter]map[string]struct{} // keys that others drew on
	shared  map[Reporter]int64               // when Due last named a reporter, microseconds
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
		m.ledgers = make(map[string]*Ledger)
		m.due = make(map[Reporter]map[string]struct{})
		m.shared = make(map[Reporter]int64)
	}
	shares := make(map[string]Share, len(reports))
	for key, r := range reports {
		l := m.ledgers[key]
		if l == nil {
			l = new(Ledger)
			m.ledgers[key] = l
		}
		joined := l.Merge(from, r, now)
		shares[key] = l.Share(from, now)
		l.Active(now, func(other Reporter) {
			if other == from {
				return
			}
			m.addDue(other, key)
			if joined {
				delete(m.shared, other) // due at once: it takes itself to be alone
			}
		})
	}
	return shares
}

func (m *Merger) addDue(to Reporter, key string) {
	keys := m.due[to]
	if keys == nil {
		keys = make(map[string]struct{})
		m.due[to] = keys
	}
	keys[key] = struct{}{}
}

// Due returns the shares that are due now to nodes whose keys others drew on,
// and whether more will be due later.
func (m *Merger) Due(now int64) (out map[Reporter]map[string]Share, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for to, keys := range m.due {
		if since := now - m.shared[to]; since >= 0 && since < DueEvery {
			more = true
			continue
		}
		shares := make(map[string]Share, len(keys))
		for key := range keys {
			if l := m.ledgers[key]; l != nil {
				shares[key] = l.Share(to, now)
			}
		}
		if out == nil {
			out = make(map[Reporter]map[string]Share)
		}
		out[to] = shares
		delete(m.due, to)
		m.shared[to] = now
	}
	return out, more
}

// Forget drops what says nothing any more. Call it from time to time.
func (m *Merger) Forget(now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, l := range m.ledgers {
		if l.Forget(now) {
			delete(m.ledgers, key)
		}
	}
	for to, at := range m.shared {
		if now-at >= DueEvery {
			delete(m.shared, to)
		}
	}
}

// Len returns the number of keys that have a ledger.
func (m *Merger) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ledgers)
}
