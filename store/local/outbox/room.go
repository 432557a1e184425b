package outbox

import (
	"path/filepath"
	"sync/atomic"

	"partneredge/store/durable"
)

// Of the disk, an outbox leaves one part in reservePart free for the node's other
// files, at most maxReserve bytes.
const (
	reservePart = 16
	maxReserve  = 64 << 20
)

// Reserve returns how many bytes an outbox leaves free of a disk of total bytes.
func Reserve(total int64) int64 { return min(total/reservePart, maxReserve) }

// free returns how many bytes an outbox may still take of its disk. What cannot
// be asked for sets no bound: the disk itself will.
func (c Config) free() int64 {
	ask := c.Free
	if ask == nil {
		ask = durable.Free
	}
	free, total, err := ask(filepath.Dir(c.Path))
	if err != nil {
		return c.MaxBytes
	}
	return max(0, free-Reserve(total))
}

// used returns the bytes of records in all segments. Only the writer calls it.
func (o *Outbox) used() (n int64) {
	for _, s := range o.segments {
		n += s.end
	}
	return n
}

// ahead returns the bytes of the tail behind its records.
func (o *Outbox) ahead() int64 {
	if o.tail == nil {
		return 0
	}
	return o.tail.size - o.tail.end
}

// hasRoom reports whether size bytes of records may be added. The disk is asked
// only when the tail would become longer, and once for jobs that came together. Only the
// writer calls it.
func (o *Outbox) hasRoom(size int64) bool {
	return o.used()+o.keptBytes()+size <= o.cfg.MaxBytes && (size <= o.ahead() || size-o.ahead() <= o.groupFree())
}

// groupFree returns what was free of the disk when the jobs that are collected first
// needed to know.
func (o *Outbox) groupFree() int64 {
	if !o.freeKnown {
		o.free, o.freeKnown = o.cfg.free(), true
	}
	return o.free
}

// makeRoom makes room for size bytes of records, if what is gone can give way to them, and
// reports whether there is room. Only the writer calls it.
func (o *Outbox) makeRoom(size int64) bool {
	for !o.hasRoom(size) {
		if !o.reclaim() {
			return false
		}
		o.freeKnown = false
	}
	return true
}

// Room returns about how many bytes of items the outbox still takes: what is left
// of its own bound, or of its disk.
func (o *Outbox) Room() int64 {
	return max(0, min(o.room.own.Load(), o.room.ahead.Load()+o.room.kept.Load()+o.cfg.free()))
}

// Kept returns about how many bytes of items are kept that were handed over.
func (o *Outbox) Kept() int64 { return o.room.kept.Load() }

// room holds sizes of the segments, as the writer noted them last.
type room struct {
	own   atomic.Int64 // bytes left of the outbox's own bound
	ahead atomic.Int64 // bytes of the tail behind its records
	kept  atomic.Int64 // bytes of items that were handed over, which give way
}

// measure notes the sizes of the segments for Room. Only the writer calls it.
func (o *Outbox) measure() {
	o.room.own.Store(o.cfg.MaxBytes - o.used())
	o.room.ahead.Store(o.ahead())
	o.room.kept.Store(o.keptBytes())
}
