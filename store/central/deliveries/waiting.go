package deliveries

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"partneredge/store"
)

// waiting remembers the queue as a process has read it: for each subscription that has
// deliveries waiting, a time before which none of them is due. So it reads neither
// the entries of what was due earlier, most of which are dead, nor the subscriptions
// for which nothing is due.
//
// What holds at every moment, once the walk has come to a subscription: a pending
// delivery that the process does not hold is due no earlier than its subscription's head,
// or the last look did not see the transaction that wrote it, so that the next one will.
// SQLite needs no looks: this process makes every write, and says so. The zero waiting
// knows nothing.
type waiting struct {
	mu      sync.Mutex
	known   map[string]*head // by subscription
	untold  byDue            // those of known that are not told
	changes uint64
	walk    walk
	last    view      // without heads
	noted   time.Time // of the last noteClock, by the database's clock
}

// noteClock notes the time now, and reports whether the clock was put back since the last
// call.
func (w *waiting) noteClock(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.noted
	w.noted = now
	return now.Before(before.Add(-clockJitter))
}

// clockJitter is by how much a shared clock may go back that is only read anew.
const clockJitter = time.Second

// head is where a subscription's part of the queue begins.
type head struct {
	id     string
	due    int64  // in microseconds: nothing that waits is due before
	change uint64 // the number of the last add for it
	sure   bool   // a delivery that is due was read there; else a query must look for one first
	told   bool   // whoever claims was told that something is due, until resolve finds nothing
	index  int    // in untold; -1: not there
}

// byDue is a heap of heads, by when they are due.
type byDue []*head

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due < b[j].due }
func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

// Push implements heap.Interface.
func (b *byDue) Push(h any) {
	h.(*head).index = len(*b)
	*b = append(*b, h.(*head))
}

// Pop implements heap.Interface.
func (b *byDue) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	h.index = -1
	return h
}

// walk remembers up to where the whole queue has been read, in slices and in the order of
// subscriptions.
type walk struct {
	nth   uint64
	to    string
	ended time.Time // by this process's clock; zero: it goes on
}

// passed reports whether the walk has read a subscription's part of the queue.
func (w walk) passed(id string) bool { return !w.ended.IsZero() || id <= w.to }

// walkEvery is the interval at which the whole queue is read, which should find
// nothing new.
const walkEvery = 10 * time.Minute

// view holds the findings of a look.
type view struct {
	server string // which start of it
	sees   string // which transactions, a pg_snapshot
	behind bool   // some that an earlier look saw are unknown
	heads  []head
}

// lastLook returns what the last look saw, if there was one.
func (w *waiting) lastLook() (last view, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.last.server != ""
}

// addLook adds what was written since the look before. It reports false when the
// server has started anew since, so that nothing before is sure.
func (w *waiting) addLook(before, v view, now time.Time) bool {
	if v.behind || v.server != before.server {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(v.heads, now)
	if w.last.sees == before.sees {
		// Where another look was quicker, the next one sees again what this one saw.
		w.last.sees = v.sees
	}
	return true
}

// begin makes looks begin with what v sees, and the walk begin anew.
func (w *waiting) begin(v view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.walk = v, walk{nth: w.walk.nth + 1}
}

// renew forgets which heads were told, and makes the walk begin anew.
func (w *waiting) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.walk = walk{nth: w.walk.nth + 1}
	for _, h := range w.known {
		h.told = false
		w.place(h)
	}
}

// nextSlice returns where the walk goes on. ok is false while none is due.
func (w *waiting) nextSlice() (from walk, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended := w.walk.ended; !ended.IsZero() && time.Since(ended) >= walkEvery {
		w.walk = walk{nth: w.walk.nth + 1}
	}
	return w.walk, w.walk.ended.IsZero()
}

// addSlice adds a slice of the queue that was read from where the walk was, the last one
// when more is false.
func (w *waiting) addSlice(from walk, heads []head, more bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.walk != from { // it began anew
		return
	}
	w.addLocked(heads, now)
	if more {
		w.walk.to = heads[len(heads)-1].id
	} else {
		w.walk.ended = time.Now()
	}
}

// add notes that deliveries wait from heads on.
func (w *waiting) add(heads []head, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addLocked(heads, now)
}

// addLocked is add with w.mu held. Whoever was told of a subscription knows of all that it
// has by then, but a claim that is under way may not see what is new: see resolve.
func (w *waiting) addLocked(heads []head, now time.Time) {
	if w.known == nil {
		w.known = make(map[string]*head)
	}
	for _, n := range heads {
		w.changes++
		h := w.known[n.id]
		if h == nil {
			h = &head{id: n.id, due: math.MaxInt64, index: -1}
			w.known[n.id] = h
		}
		if h.change = w.changes; n.due < h.due {
			h.due, h.sure = n.due, n.due <= store.Micros(now)
		}
		w.place(h)
	}
}

// place puts h where it belongs in untold, or removes it if it is told. w.mu is held.
func (w *waiting) place(h *head) {
	switch {
	case h.told && h.index >= 0:
		heap.Remove(&w.untold, h.index)
	case h.told:
	case h.index >= 0:
		heap.Fix(&w.untold, h.index)
	default:
		heap.Push(&w.untold, h)
	}
}

// claimable returns up to most subscriptions that are due. sure are those known to have a due
// delivery, which it marks as told. unsure must be looked up first: their heads are to be
// passed to resolve, or to putBack if the look fails.
func (w *waiting) claimable(now time.Time, most int) (sure []string, unsure []head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; most > 0 && len(w.untold) > 0 && w.untold[0].due <= store.Micros(now); most-- {
		h := heap.Pop(&w.untold).(*head)
		if h.sure {
			h.told = true
			sure = append(sure, h.id)
		} else {
			unsure = append(unsure, *h)
		}
	}
	return sure, unsure
}

// putBack undoes claimable for subscriptions that nobody was told of after all.
func (w *waiting) putBack(sure []string, unsure []head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range unsure {
		sure = append(sure, h.id)
	}
	for _, id := range sure {
		if h := w.known[id]; h != nil {
			h.told = false
			w.place(h)
		}
	}
}

// next returns when claimable is to be called again: the zero time while nothing is known
// to wait.
func (w *waiting) next() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.walk.ended.IsZero():
		return time.UnixMicro(1) // the walk goes on
	case len(w.untold) == 0:
		return time.Time{}
	}
	return store.TimeOf(w.untold[0].due)
}

// heads returns those of subscriptions, without the ones for which nothing waits.
func (w *waiting) heads(subscriptions []string) (heads []head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range subscriptions {
		if h := w.known[id]; h != nil {
			heads = append(heads, *h)
		} else if !w.walk.passed(id) {
			heads = append(heads, head{id: id})
		}
	}
	return heads
}

// resolve replaces heads by what a query has read there: the first deliveries that wait. The
// query must have begun after the heads were returned. resolve returns the subscriptions that
// are due, marked as told. A head to which something was added meanwhile stays, and is looked
// at again, since the query may not have seen that.
func (w *waiting) resolve(from []head, rest []first, now time.Time) (due []string) {
	begins := make(map[string]int64, len(rest))
	for _, f := range rest {
		if at, several := begins[f.subscription]; !several || f.due < at {
			begins[f.subscription] = f.due
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, was := range from {
		at, waits := begins[was.id]
		isDue := waits && at <= store.Micros(now)
		if isDue {
			due = append(due, was.id)
		}
		h := w.known[was.id]
		switch {
		case h == nil:
			continue
		case h.change != was.change:
			h.told, h.sure = false, false
		case !waits:
			w.forget(h)
			continue
		default:
			h.due, h.told, h.sure = at, isDue, false
		}
		w.place(h)
	}
	return due
}

// forget drops a subscription for which nothing waits. w.mu is held.
func (w *waiting) forget(h *head) {
	if h.index >= 0 {
		heap.Remove(&w.untold, h.index)
	}
	delete(w.known, h.id)
}

// columns returns heads as the columns of a table.
func columns(heads []head) (ids []string, dues []int64) {
	for _, h := range heads {
		ids, dues = append(ids, h.id), append(dues, h.due)
	}
	return ids, dues
}
