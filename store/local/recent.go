package local

// recent remembers the last changes, so that a record which was on its way
// from the origin while they came is not taken for current.
type recent struct {
	seq   map[string]int64 // ref -> its last change
	order []noted          // a ring, the oldest at next once it is full
	next  int
	size  int
	floor int64 // the highest change that has been forgotten
}

type noted struct {
	ref string
	seq int64
}

// recentChanges is how many are remembered: several seconds' worth, while a
// record is on its way for milliseconds.
const recentChanges = 8192

func newRecent(size int) recent { return recent{seq: map[string]int64{}, size: size} }

func (r *recent) note(ref string, seq int64) {
	if seq <= r.seq[ref] {
		return
	}
	r.seq[ref] = seq
	if len(r.order) < r.size {
		r.order = append(r.order, noted{ref, seq})
		return
	}
	old := r.order[r.next]
	r.order[r.next] = noted{ref, seq}
	r.next = (r.next + 1) % r.size
	r.floor = max(r.floor, old.seq)
	if r.seq[old.ref] == old.seq {
		delete(r.seq, old.ref)
	}
}

// last is the last change known of ref. A record that takes in less than what
// has been forgotten may miss one of those: then it is that.
func (r *recent) last(ref string, seq int64) int64 {
	last := r.seq[ref]
	if seq < r.floor {
		last = max(last, r.floor)
	}
	return last
}
