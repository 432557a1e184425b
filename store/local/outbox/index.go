package outbox

// index holds the items that wait in an outbox, by id and in the order they came.
// An item is one object and not three, since the garbage collector visits each.
type index struct {
	byID        map[string]*waiting
	first, last *waiting
	size        int64 // bytes of all records
}

// waiting is an item's record in the file.
type waiting struct {
	id            string
	at            int64
	size          int
	unreadable    bool
	before, after *waiting
}

func (x *index) len() int { return len(x.byID) }

// add adds an item; if it is there already, it moves its record.
func (x *index) add(id string, at int64, size int) {
	w, ok := x.byID[id]
	if !ok {
		w = &waiting{id: id, before: x.last}
		if x.last != nil {
			x.last.after = w
		} else {
			x.first = w
		}
		x.last, x.byID[id] = w, w
	}
	x.size += int64(size - w.size)
	w.at, w.size = at, size
}

// remove removes an item. One that is not there is no error.
func (x *index) remove(id string) {
	w, ok := x.byID[id]
	if !ok {
		return
	}
	if w.before != nil {
		w.before.after = w.after
	} else {
		x.first = w.after
	}
	if w.after != nil {
		w.after.before = w.before
	} else {
		x.last = w.before
	}
	x.size -= int64(w.size)
	delete(x.byID, id)
}
