package deliveries

import (
	"sync"
	"time"

	"partneredge/store/central/db"
)

// waiting remembers PostgreSQL's queue as a process has read it: for each subscription that
// has deliveries waiting, a time before which none of them is due. So it reads neither
// the entries of what was due earlier, most of which are dead, nor the subscriptions
// for which nothing waits.
//
// What holds at every moment: a pending delivery is due no earlier than its
// subscription's head, or the last look did not see the transaction that wrote it, so
// that the next one will. The zero waiting knows nothing.
type waiting struct {
	mu       sync.Mutex
	last     view      // without heads
	walkedAt time.Time // by this process's clock
	looks    uint64
	known    map[string]head
}

// head is where a subscription's part of the queue begins.
type head struct {
	id   string
	due  int64  // in microseconds: nothing that waits is due before
	look uint64 // the last one that saw something new of it
	sure bool   // once due was over, a delivery was found there
}

// view holds the findings of a look.
type view struct {
	server string // which start of it
	sees   string // which transactions, a pg_snapshot
	behind bool   // some that an earlier look saw are unknown
	heads  []head
}

// walkEvery is the interval at which the whole queue is read, which should find
// nothing new.
const walkEvery = 10 * time.Minute

// lastLook returns what the last look saw, unless the whole queue is to be read.
func (w *waiting) lastLook() (last view, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.known != nil && time.Since(w.walkedAt) < walkEvery
}

// add takes in what was written since the look before. It reports false when the
// server has started anew since, so that nothing before is sure.
func (w *waiting) add(before, v view, now time.Time) bool {
	if v.behind || v.server != before.server {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	for _, n := range v.heads {
		n.look, n.sure = w.looks, n.due <= db.Micros(now)
		if h, found := w.known[n.id]; found && h.due < n.due {
			n.due, n.sure = h.due, h.sure
		}
		w.known[n.id] = n
	}
	if w.last.sees == before.sees {
		// Where another look was quicker, the next one sees again what this one saw.
		w.last.sees = v.sees
	}
	return true
}

// replace takes in the whole queue.
func (w *waiting) replace(v view, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.known = make(map[string]head, len(v.heads))
	for _, h := range v.heads {
		h.look, h.sure = w.looks, h.due <= db.Micros(now)
		w.known[h.id] = h
	}
	v.heads = nil
	w.last, w.walkedAt = v, time.Now()
}

// heads returns those of subscriptions, without the ones for which nothing waits.
func (w *waiting) heads(subscriptions []string) (heads []head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range subscriptions {
		if h, found := w.known[id]; found {
			heads = append(heads, h)
		}
	}
	return heads
}

// unsure returns heads whose time has come since they were read.
func (w *waiting) unsure(now time.Time) (heads []head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.known {
		if !h.sure && h.due <= db.Micros(now) {
			heads = append(heads, h)
		}
	}
	return heads
}

// found takes in what a query read from heads on that began after they were returned:
// the first of each that waits. A head of which a look saw something new meanwhile
// stays, since the query may not have seen that.
func (w *waiting) found(from []head, first []Queue, now time.Time) {
	due := make(map[string]int64, len(first))
	for _, q := range first {
		due[q.SubscriptionID] = db.Micros(q.DueAt)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range from {
		if w.known[h.id] != h {
			continue
		}
		at, waits := due[h.id]
		if !waits {
			delete(w.known, h.id)
			continue
		}
		h.due, h.sure = at, at <= db.Micros(now)
		w.known[h.id] = h
	}
}

// list returns all that is known.
func (w *waiting) list() []Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	queues := make([]Queue, 0, len(w.known))
	for _, h := range w.known {
		queues = append(queues, Queue{SubscriptionID: h.id, DueAt: db.TimeOf(h.due)})
	}
	return queues
}

// columns returns heads as the columns of a table.
func columns(heads []head) (ids []string, dues []int64) {
	for _, h := range heads {
		ids, dues = append(ids, h.id), append(dues, h.due)
	}
	return ids, dues
}
