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
	return max(0, free-min(total/reservePart, maxReserve))
}

// hasRoom reports whether the file may have size bytes of records. The disk is
// asked only when the file would become longer. Only the writer calls it.
func (o *Outbox) hasRoom(size int64) bool {
	return size <= o.file.maxSize && (size <= o.file.size || size-o.file.size <= o.cfg.free())
}

// Room returns about how many bytes of items the outbox still takes: what is left
// of its own bound, or of its disk.
func (o *Outbox) Room() int64 {
	return max(0, min(o.room.own.Load(), o.room.ahead.Load()+o.cfg.free()))
}

// room holds sizes of the file, as the writer noted them last.
type room struct {
	own   atomic.Int64 // bytes left of the outbox's own bound
	ahead atomic.Int64 // bytes of the file behind the records
}

// measure notes the sizes of the file for Room. Only the writer calls it.
func (o *Outbox) measure() {
	o.room.own.Store(o.file.maxSize - o.file.end)
	o.room.ahead.Store(o.file.size - o.file.end)
}
