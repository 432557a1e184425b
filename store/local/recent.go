package local

import "hash/maphash"

// recentChanges remembers the last changes, so that a record which was on its
// way from the origin while they came is not taken for current. Changes come far more
// often than records: to note one costs next to nothing, and a record is compared with
// all of them.
type recentChanges struct {
	seed   maphash.Seed
	ring   []refSeq // once it is full, the oldest is at next
	next   int
	size   int
	forgot int64 // highest change that was forgotten
}

// refSeq is a change of a ref, by the ref's hash. Where two refs share one, a record
// that is current counts as stale and is asked for again.
type refSeq struct {
	ref uint64
	seq int64
}

// maxRecent bounds the changes that are remembered: those of several seconds, where
// a record is on its way for milliseconds.
const maxRecent = 8192

func newRecentChanges(size int) recentChanges {
	return recentChanges{seed: maphash.MakeSeed(), size: size}
}

func (r *recentChanges) note(ref string, seq int64) {
	one := refSeq{maphash.String(r.seed, ref), seq}
	if len(r.ring) < r.size {
		r.ring = append(r.ring, one)
		return
	}
	r.forgot = max(r.forgot, r.ring[r.next].seq)
	r.ring[r.next] = one
	if r.next++; r.next == r.size {
		r.next = 0
	}
}

// last returns the last change that may concern a record of ref which includes
// change seq: a known one, or the highest that was forgotten.
func (r *recentChanges) last(ref string, seq int64) (last int64) {
	hash := maphash.String(r.seed, ref)
	for i := range r.ring {
		if r.ring[i].ref == hash {
			last = max(last, r.ring[i].seq)
		}
	}
	if seq < r.forgot {
		last = max(last, r.forgot)
	}
	return last
}
