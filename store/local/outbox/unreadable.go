package outbox

import (
	"maps"
	"slices"
	"time"
)

const (
	// maxUnreadTries bounds the items that a call of Pending tries to read in vain: a disk may
	// take seconds for each, and the writer waits.
	maxUnreadTries = 8
	// unreadFor is the time for which an item that the disk did not read is not tried again.
	unreadFor = 5 * time.Minute
)

// passesOver reports whether the item i is not to be read now. o.mu is locked.
func (o *Outbox) passesOver(s *segment, i int) bool {
	again, is := s.unreadable[i]
	if !is || again.IsZero() {
		return is
	}
	left := again.Sub(o.cfg.Now())
	return left > 0 && left <= unreadFor // a longer wait is of a clock that was put back
}

// noteUnreadable notes that the item i could not be read, because of err, or is damaged for
// nil. It stays in the file, which is left as it is. Damage is known to last: the file is set
// aside at the next start. o.mu is locked.
func (o *Outbox) noteUnreadable(s *segment, i int, err error) {
	_, known := s.unreadable[i]
	var again time.Time
	if err != nil {
		again = o.cfg.Now().Add(unreadFor)
	}
	s.unreadable[i] = again
	if known {
		return
	}
	id, head := "", make([]byte, recordHead+maxID)
	n, _ := s.f.ReadAt(head, int64(s.at[i]))
	if rec, failed := parseHead(head[:n]); failed == nil {
		id = string(rec.id)
	}
	o.cfg.Log.Error("outbox item can no longer be read: it stays in its file", "file", s.path, "offset", s.at[i],
		"bytes", s.given(i), "item", id, "err", err)
}

// bodyOf returns the body of the item that waits with the id of a job. waits is false if none
// does, or none that can be read: then the item of the job is to wait as well. An id that is
// handed over twice, since its first record is read again, is nothing new to the origin. Only
// the writer calls it.
func (o *Outbox) bodyOf(j *job) (body []byte, waits bool) {
	for _, s := range o.segments {
		i := s.items.find(j.hash, func(at int64) bool {
			_, is := s.headAt(at, idIn(j.record))
			if is {
				body, is = o.readBody(s, at)
			}
			return is
		})
		if i >= 0 {
			return body, true
		}
	}
	return nil, false
}

// readBody returns the body of the waiting item at an offset. ok is false when it cannot be
// read.
func (o *Outbox) readBody(s *segment, at int64) (body []byte, ok bool) {
	i, _ := s.waitsAt(uint32(at))
	o.mu.Lock()
	passes := o.passesOver(s, i)
	o.mu.Unlock()
	if passes {
		return nil, false
	}
	w := window{f: s.f, exact: true}
	rec, found, err := w.record(at) // may take seconds
	if err == nil && found == whole {
		return rec.body, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteUnreadable(s, i, err)
	return nil, false
}

// Unread returns about how many bytes of the outbox cannot be read, and of what Rejected read
// last. Items that wait may be in them.
func (o *Outbox) Unread() (n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.segments {
		n += s.unreadBytes()
	}
	for _, unread := range o.aside.unread {
		n += unread
	}
	return n
}

// leaveBad leaves a segment as it is in which from found blocks that cannot be read.
func (o *Outbox) leaveBad(s *segment, from *patched) {
	if n := from.badBytes(); n != s.bad {
		o.cfg.Log.Error("part of the outbox cannot be read, and the items in it are not handed over: the file is left as it is",
			"file", s.path, "blocks", slices.Sorted(maps.Keys(from.bad)), "block_bytes", blockSize, "items", s.waiting, "err", from.err)
	}
	s.bad, s.blind, s.sealed = from.badBytes(), from.blind(), true
	if s == o.tail {
		o.seal()
	}
}

// unreadBytes returns the bytes of a segment that cannot be read. o.mu is locked.
func (s *segment) unreadBytes() (n int64) {
	n = s.bad
	for i := range s.unreadable {
		if s.waits(i) {
			n += s.given(i)
		}
	}
	return n
}

// isWhole reports whether everything of a segment can be read, as far as is known. One that is
// not is left as it is, so that nothing of it is lost.
func (o *Outbox) isWhole(s *segment) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return s.unreadBytes() == 0
}
