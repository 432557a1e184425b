package ratelimit

import "sync"

// Desk is where the origin takes reports in and gives shares out, for all keys.
// The zero Desk is ready. Its methods may be called at the same time.
//
// A life is one life of a node's counters: the node's id and what tells this
// file of counters from one that was lost.
type Desk struct {
	mu      sync.Mutex
	ledgers map[string]*Ledger
	due     map[Life]map[string]struct{}
	told    map[Life]int64 // when Due last named a life, microseconds
}

// DueEvery is how often, in microseconds, Due names a life at most, unless it is
// to hear of a node that has begun to draw on its key. What is due after a pause
// is due at once: nodes that wait for a key's next token are to hear as soon as
// can be that another took it.
const DueEvery = 50_000

// Life names who reports.
type Life struct{ Node, Boot string }

// Merge takes in reports by key and returns what the reporter is to be told at
// once. Others that draw on the same keys are to be told by the next Due.
func (d *Desk) Merge(from Life, reports map[string]Report, now int64) map[string]Share {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ledgers == nil {
		d.ledgers = make(map[string]*Ledger)
		d.due = make(map[Life]map[string]struct{})
		d.told = make(map[Life]int64)
	}
	shares := make(map[string]Share, len(reports))
	for key, r := range reports {
		l := d.ledgers[key]
		if l == nil {
			l = new(Ledger)
			d.ledgers[key] = l
		}
		begun := l.Merge(from, r, now)
		shares[key] = l.Share(from, now)
		l.Active(now, func(life Life) {
			if life == from {
				return
			}
			d.owe(life, key)
			if begun {
				delete(d.told, life) // not to wait: it takes itself for alone
			}
		})
	}
	return shares
}

func (d *Desk) owe(life Life, key string) {
	keys := d.due[life]
	if keys == nil {
		keys = make(map[string]struct{})
		d.due[life] = keys
	}
	keys[key] = struct{}{}
}

// Due takes what is to be told now to those whose keys others drew on; more
// tells whether there is something to be told later.
func (d *Desk) Due(now int64) (out map[Life]map[string]Share, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for life, keys := range d.due {
		if since := now - d.told[life]; since >= 0 && since < DueEvery {
			more = true
			continue
		}
		shares := make(map[string]Share, len(keys))
		for key := range keys {
			if l := d.ledgers[key]; l != nil {
				shares[key] = l.Share(life, now)
			}
		}
		if out == nil {
			out = make(map[Life]map[string]Share)
		}
		out[life] = shares
		delete(d.due, life)
		d.told[life] = now
	}
	return out, more
}

// Forget drops what says nothing any more. It is to be called now and then.
func (d *Desk) Forget(now int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, l := range d.ledgers {
		if l.Forget(now) {
			delete(d.ledgers, key)
		}
	}
	for life, at := range d.told {
		if now-at >= DueEvery {
			delete(d.told, life)
		}
	}
}

// Len is the number of keys that are known.
func (d *Desk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ledgers)
}
