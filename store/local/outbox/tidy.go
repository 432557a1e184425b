package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	clearFrom = 1 << 20 // from this size on the tail is emptied when nothing waits in it
	deadFrom  = 8 << 20 // a segment is rewritten when so many bytes, and half of it, are of removed items
	// restAfter is the time for which nothing is tidied after that failed, as it does
	// on a full disk.
	restAfter = time.Minute
	// deadFor is the least time after which a segment in which something still waits
	// is rewritten without what is gone. Where nothing is kept, the tail ends at that age, so
	// that what comes later is not beside what waits in it.
	deadFor = time.Hour
	// keepParts is into how many segments the time is divided for which items are
	// kept, since a segment ends as a whole.
	keepParts = 48
)

// tidy retires the segments in which nothing waits and, unless removed items are
// kept, makes one smaller that is mostly of those.
func (o *Outbox) tidy() {
	if o.rests() {
		return
	}
	for _, s := range slices.Clone(o.segments) {
		var err error
		switch dead := s.dead(); {
		case s != o.tail && s.waiting == 0 && o.isWhole(s):
			err = o.retire(s)
		case s.broken || s.waiting == 0 && s != o.tail:
		case s.waiting == 0 && dead >= min(clearFrom, o.cfg.MaxBytes/2):
			err = o.retire(s)
		case o.cfg.KeepFor == 0 && dead >= min(deadFrom, o.cfg.MaxBytes/4) && dead > s.bytes && o.isWhole(s):
			err = o.compact(s)
		}
		if err != nil {
			o.rest = o.cfg.Now().Add(restAfter)
			o.cfg.Log.Error("outbox file cannot be made smaller", "file", s.path, "err", err)
		}
	}
}

// rests reports whether tidying failed a moment ago. A longer rest is of a clock
// that was put back.
func (o *Outbox) rests() bool {
	left := o.rest.Sub(o.cfg.Now())
	return left > 0 && left <= restAfter
}

// upkeep makes an end of what was handed over a while ago, though it is little, or
// something beside it still waits.
func (o *Outbox) upkeep() error {
	o.watchClock()
	if o.steady >= steadyUpkeeps {
		o.restamp()
	}
	o.trim()
	var failed error
	for _, s := range slices.Clone(o.segments) {
		var err error
		switch age, part := o.since(s.begun), o.cfg.KeepFor/keepParts; {
		case s.dead() == 0 || s.broken:
		case s == o.tail && age >= part && s.waiting == 0:
			err = o.retire(s)
		case s == o.tail && age >= cmp.Or(part, deadFor):
			o.seal()
		case s.removed.After(o.cfg.Now()) && o.steady >= steadyUpkeeps: // the clock was put back
			s.removed = o.cfg.Now()
		case o.since(s.deadSince) < deadFor || !o.over(s.removed):
		case !o.isWhole(s):
			err = o.erase(s)
		case s.waiting > 0:
			err = o.compact(s)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// since returns the time since then; a time that lies ahead, because the clock was
// put back, counts as if it lay as far behind.
func (o *Outbox) since(then time.Time) time.Duration { return o.cfg.Now().Sub(then).Abs() }

// steadyUpkeeps is how many upkeeps in a row must find a clock that goes on by itself
// before anything is removed for its age. A clock that is set after a start, or jumps
// for a while, says nothing of ages, and what it has removed is gone.
const steadyUpkeeps = 10

// watchClock counts upkeeps between which the clock went on as it should.
func (o *Outbox) watchClock() {
	now := o.cfg.Now()
	o.steady++
	if step := now.Sub(o.upkeptAt); step < 0 || step > 5*upkeepEvery {
		o.steady = 0
	}
	o.upkeptAt = now
}

// over reports whether what was handed over at a time need not be kept any more. It goes
// by the clock as the last upkeep found it, since that may have jumped since then.
func (o *Outbox) over(at time.Time) bool {
	return o.cfg.KeepFor == 0 || o.steady >= steadyUpkeeps && o.upkeptAt.Sub(at) >= o.cfg.KeepFor
}

// reclaim makes some room and reports whether it did.
func (o *Outbox) reclaim() bool {
	if len(o.kept) > 0 {
		o.removeKept()
		return true
	}
	if t := o.tail; t != nil && !t.broken && t.waiting == 0 && t.end > 0 {
		return o.empty(t) == nil
	}
	if o.rests() {
		return false
	}
	var worst *segment
	for _, s := range o.segments {
		if s.dead() > s.bytes && (worst == nil || s.dead() > worst.dead()) && o.isWhole(s) {
			worst = s
		}
	}
	if worst == nil || worst.bytes > o.cfg.free() {
		return false
	}
	if err := o.compact(worst); err != nil {
		o.rest = o.cfg.Now().Add(restAfter)
		return false
	}
	return true
}

// retire keeps, empties or removes a segment in which nothing waits.
func (o *Outbox) retire(s *segment) error {
	switch {
	case o.cfg.KeepFor > 0 && s.end > 0:
		return o.keep(s)
	case s == o.tail:
		return o.empty(s)
	}
	if err := s.disk.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return o.leave(s)
}

// leave goes on without a segment.
func (o *Outbox) leave(s *segment) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.segments = slices.DeleteFunc(o.segments, func(other *segment) bool { return other == s })
	if o.tail == s {
		o.tail = nil
	}
	err := s.marks.remove()
	s.closeFiles()
	return err
}

// empty empties a segment in which nothing waits, which needs no space on the disk.
func (o *Outbox) empty(s *segment) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := s.clear(); err != nil {
		return err
	}
	s.items.forget()
	clear(s.unreadable)
	return s.marks.remove()
}

// erase overwrites the items of a segment that are gone with records that say no more than
// that, for a segment that cannot be written anew, since the disk does not read all of it. What
// it does not read, and what waits, is left as it is.
func (o *Outbox) erase(s *segment) error {
	if s.erased.Equal(s.removed) {
		return nil
	}
	w, blank := window{f: &patched{f: s.f, size: s.end}}, []byte(nil)
	for i, at := range s.at {
		if s.waits(i) {
			continue
		}
		rec, found, err := w.record(int64(at))
		if err == nil && found == whole { // one that was overwritten too: it may not have been synced
			blank = appendRecord(blank[:0], recordGone, string(rec.id), make([]byte, len(rec.body)))
			_, err = s.f.WriteAt(blank, int64(at))
		}
		if err != nil {
			return err
		}
	}
	if err := s.f.SyncData(); err != nil {
		return err
	}
	s.erased = s.removed
	return nil
}

// compact writes a segment anew with only the items that wait.
func (o *Outbox) compact(s *segment) error {
	fresh := items{seed: o.seed}
	fresh.reserve(s.waiting)
	f, err := s.rewrite(func(to io.Writer) error {
		w, at := window{f: s.f}, int64(0)
		for i := s.first; i < len(s.at); i++ {
			if !s.waits(i) {
				continue
			}
			rec, found, err := w.record(int64(s.at[i]))
			if err == nil && found != whole {
				err = fmt.Errorf("item at %d: %w", s.at[i], errDamaged)
			}
			if err != nil {
				return err
			}
			fresh.add(fresh.hash(rec.id), at, rec.size)
			at += int64(rec.size)
			b, err := w.read(int64(s.at[i]), rec.size)
			if err == nil {
				_, err = to.Write(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s.adopt(f, fresh.bytes)
	s.items = fresh
	clear(s.unreadable)
	return s.marks.remove()
}
