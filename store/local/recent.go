package local

// recentChanges remembers the last changes, so that a record which was on its
// way from the origin while they came is not taken for current.
type recentChanges struct {
	seq    map[string]int64 // ref -> its last change
	ring   []refSeq         // once it is full, the oldest is at next
	next   int
	size   int
	forgot int64 // highest change that was forgotten
}

type refSeq struct {
	ref string
	seq int64
}

// maxRecent is how many changes are remembered: those of several seconds, where
// a record is on its way for milliseconds.
const maxRecent = 8192

func newRecentChanges(size int) recentChanges {
	return recentChanges{seq: map[string]int64{}, size: size}
}

func (r *recentChanges) note(ref string, seq int64) {
	if seq <= r.seq[ref] {
		return
	}
	r.seq[ref] = seq
	if len(r.ring) < r.size {
		r.ring = append(r.ring, refSeq{ref, seq})
		return
	}
	old := r.ring[r.next]
	r.ring[r.next] = refSeq{ref, seq}
	r.next = (r.next + 1) % r.size
	r.forgot = max(r.forgot, old.seq)
	if r.seq[old.ref] == old.seq {
		delete(r.seq, old.ref)
	}
}

// last returns the last change that may concern a record of ref which includes
// change seq: a known one, or the highest that was forgotten.
func (r *recentChanges) last(ref string, seq int64) int64 {
	last := r.seq[ref]
	if seq < r.forgot {
		last = max(last, r.forgot)
	}
	return last
}
