package outbox

import (
	"cmp"
	"fmt"
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
	// maxUnreadAtOnce bounds the items known as unreadable up to which the others are sought
	// without a rest. With more of them, the disk may read nothing at all.
	maxUnreadAtOnce = 4096
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

// again is an item that the disk did not read and that is to be tried again.
type again struct {
	s  *segment
	i  int
	at time.Time
}

// due returns the items that wait and are to be tried again, those first whose time came
// first: a call of Pending may not get to the others. o.mu is locked.
func (o *Outbox) due() (all []again) {
	for _, s := range o.segments {
		for i, at := range s.unreadable {
			if s.waits(i) && !o.passesOver(s, i) {
				all = append(all, again{s, i, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b again) int {
		return cmp.Or(a.at.Compare(b.at), a.s.number-b.s.number, a.i-b.i)
	})
	return all
}

// moreBehind returns the error of a call of Pending that ends before it has tried all items
// that are not known as unreadable. o.mu is locked.
func (o *Outbox) moreBehind(p *batch) error {
	known := 0
	for _, s := range o.segments {
		known += len(s.unreadable)
	}
	if p.tries > 0 || known > maxUnreadAtOnce {
		return p.failed
	}
	return fmt.Errorf("%w: %w", ErrMoreBehind, p.failed)
}

// noteUnread notes that the item i could not be read, because of err, at an offset. The disk
// reads none of that block, so all items are noted that lie in it, and it need not try for
// each. They stay in the file, which is left as it is. o.mu is locked.
func (o *Outbox) noteUnread(s *segment, i int, offset int64, err error) {
	from := offset / blockSize * blockSize
	first, found := slices.BinarySearch(s.at, uint32(from))
	if !found && first > 0 {
		first-- // its end may lie in the block
	}
	until := o.cfg.Now().Add(unreadFor)
	for j := first; j < len(s.at) && int64(s.at[j]) < from+blockSize; j++ {
		if s.waits(j) && int64(s.at[j])+s.given(j) > from {
			o.noteUnreadable(s, j, until, from, err)
		}
	}
	o.noteUnreadable(s, i, until, from, err)
}

// noteDamaged notes that the item i is damaged. That is known to last: the file is set aside at
// the next start. o.mu is locked.
func (o *Outbox) noteDamaged(s *segment, i int) {
	o.noteUnreadable(s, i, time.Time{}, s.end, nil)
}

// noteUnreadable notes an item that cannot be read before a time, the zero time for never. What
// lies in front of the offset bad can be read of it. o.mu is locked.
func (o *Outbox) noteUnreadable(s *segment, i int, until time.Time, bad int64, err error) {
	before, known := s.unreadable[i]
	if known && before.IsZero() {
		return
	}
	s.unreadable[i] = until
	if known {
		return
	}
	at, id := int64(s.at[i]), ""
	head := make([]byte, max(0, min(recordHead+maxID, bad-at)))
	n, _ := s.f.ReadAt(head, at)
	if rec, failed := parseHead(head[:n]); failed == nil {
		id = string(rec.id)
	}
	o.cfg.Log.Error("outbox item can no longer be read: it stays in its file", "file", s.path, "offset", at,
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
	if err != nil {
		o.noteUnread(s, i, w.end(), err)
	} else {
		o.noteDamaged(s, i)
	}
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
