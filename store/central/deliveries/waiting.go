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
	known   map[string]*head
	untold  byDue
	changes uint64
	walk    walk
	last    view      // without heads
	asked   time.Time // when setBack was called last, by the database's clock
}

// setBack reports whether the clock was put back since the last call.
func (w *waiting) setBack(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.asked
	w.asked = now
	return now.Before(before.Add(-clockJitter))
}

// clockJitter is by how much a shared clock may go back that is only read anew.
const clockJitter = time.Second

// head is where a subscription's part of the queue begins.
type head struct {
	id     string
	due    int64  // in microseconds: nothing that waits is due before
	change uint64 // the number of the last thing that was heard of it
	sure   bool   // once due was over, a delivery was found there
	told   bool   // who claims knows that something is due
	place  int    // in untold; -1: not there
}

// byDue is a heap of heads, by when they are due.
type byDue []*head

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due < b[j].due }
func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].place, b[j].place = i, j
}

// Push implements heap.Interface.
func (b *byDue) Push(h any) {
	h.(*head).place = len(*b)
	*b = append(*b, h.(*head))
}

// Pop implements heap.Interface.
func (b *byDue) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	h.place = -1
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

// add takes in what was written since the look before. It reports false when the
// server has started anew since, so that nothing before is sure.
func (w *waiting) add(before, v view, now time.Time) bool {
	if v.behind || v.server != before.server {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear(v.heads, now)
	if w.last.sees == before.sees {
		// Where another look was quicker, the next one sees again what this one saw.
		w.last.sees = v.sees
	}
	return true
}

// begin has looks begin with what v sees, and the whole queue read after it.
func (w *waiting) begin(v view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.walk = v, walk{nth: w.walk.nth + 1}
}

// renew forgets who was told of what, and has the whole queue read again.
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

// walked takes in a slice of the queue that was read from where the walk was, the last
// one when more is false.
func (w *waiting) walked(from walk, heads []head, more bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.walk != from { // it began anew
		return
	}
	w.hear(heads, now)
	if more {
		w.walk.to = heads[len(heads)-1].id
	} else {
		w.walk.ended = time.Now()
	}
}

// hears takes in that deliveries wait from heads on.
func (w *waiting) hears(heads []head, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear(heads, now)
}

// hear is hears. Who was told of a subscription knows of all that it has by then, but a
// claim that is under way may not see what is new: see found. w.mu is held.
func (w *waiting) hear(heads []head, now time.Time) {
	if w.known == nil {
		w.known = make(map[string]*head)
	}
	for _, n := range heads {
		w.changes++
		h := w.known[n.id]
		if h == nil {
			h = &head{id: n.id, due: math.MaxInt64, place: -1}
			w.known[n.id] = h
		}
		if h.change = w.changes; n.due < h.due {
			h.due, h.sure = n.due, n.due <= store.Micros(now)
		}
		w.place(h)
	}
}

// place puts h where it belongs among those that nobody was told of. w.mu is held.
func (w *waiting) place(h *head) {
	switch {
	case h.told && h.place >= 0:
		heap.Remove(&w.untold, h.place)
	case h.told:
	case h.place >= 0:
		heap.Fix(&w.untold, h.place)
	default:
		heap.Push(&w.untold, h)
	}
}

// take tells of up to most subscriptions that are due: of those for which it is sure. For
// the others their heads are returned, to be looked at and given to found or to again.
func (w *waiting) take(now time.Time, most int) (sure []string, unsure []head) {
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

// again undoes take for subscriptions that nobody was told of after all.
func (w *waiting) again(sure []string, unsure []head) {
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

// next returns when take is to be called again: the zero time while nothing is known
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

// found takes in what a query read from heads on that began after they were returned:
// the first of each that waits. It returns the subscriptions that are due, of which the
// caller is to tell. A head of which something new was heard meanwhile stays, and is
// looked at again, since the query may not have seen that.
func (w *waiting) found(from []head, rest []first, now time.Time) (due []string) {
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
	if h.place >= 0 {
		heap.Remove(&w.untold, h.place)
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
