package outbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"partneredge/store/durable"
)

// segment is one of the files that an outbox's items are in, and what of it waits.
type segment struct {
	file
	items
	number int
	marks  marks
	// unreadable are the items that cannot be read, and when to try again; the zero time: never.
	unreadable map[int]time.Time
	bad        int64     // bytes that the disk does not read, of which it is not known what they hold
	blind      error     // of a disk that reads nothing of the file
	sealed     bool      // nothing may be added, whatever its size
	begun      time.Time // when the first item was added, or the outbox opened
	removed    time.Time // when an item was last removed
	deadSince  time.Time // when the first was removed of those that the file still holds
	erased     time.Time // see erase: removed as it was then
	head       []byte    // to read a record's head into
}

func (o *Outbox) newSegment(number int) *segment {
	path := segmentPath(o.cfg.Path, number)
	return &segment{
		file:   file{disk: o.cfg.Disk, path: path, zeros: o.zeros},
		items:  items{seed: o.seed},
		number: number,
		marks:  marks{disk: o.cfg.Disk, path: path + goneSuffix},
		begun:  o.cfg.Now(), removed: o.cfg.Now(), deadSince: o.cfg.Now(),
		unreadable: map[int]time.Time{},
		head:       make([]byte, recordHead+maxID),
	}
}

// openSegment opens a segment's file and finds what waits in it. What a crash left
// half written at its end is cut off. A damaged file is set aside, and all its
// whole records go into a new one, which is one line in the log. A file of which the disk
// does not read some blocks is left as it is, whatever those hold: what waits in the others
// is found, and nothing is added.
func (o *Outbox) openSegment(number int) (*segment, error) {
	s := o.newSegment(number)
	err := o.read(s)
	if err != nil {
		s.closeFiles() // as it is: what could not be read may still be there
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	return s, nil
}

func (o *Outbox) read(s *segment) (err error) {
	if s.f, err = s.disk.OpenFile(s.path, os.O_RDWR, 0); err != nil {
		return err
	}
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if s.size = info.Size(); s.size > maxSegment {
		return fmt.Errorf("%s has %d bytes, %d at most can be read", s.path, s.size, int64(maxSegment))
	}
	from := &patched{f: s.f, size: s.size}
	good, damaged, err := s.index(from)
	if err != nil {
		return err
	}
	if len(from.bad) > 0 {
		s.end = s.size
		o.leaveBad(s, from)
		return errors.Join(s.f.Sync(), s.applyMarks())
	}
	if damaged {
		if good, err = o.repair(s); err != nil {
			return err
		}
	}
	s.end = good
	if good < s.size {
		if err := s.f.Truncate(good); err != nil {
			return err
		}
		s.size = good
	}
	return errors.Join(s.f.Sync(), s.applyMarks())
}

// sampled is how many records are read before the memory for the others is
// reserved.
const sampled = 256

// index reads the file and finds what waits in it, but for the marks. See window.records.
func (s *segment) index(from *patched) (good int64, damaged bool, err error) {
	s.items.forget()
	clear(s.unreadable)
	w, size := window{f: from}, from.size
	return w.records(size, func(at int64, rec record) error {
		hash := s.hash(rec.id)
		if i, head := s.find(hash, rec.id); i >= 0 {
			s.items.remove(i, head.size)
		}
		if rec.kind == recordLead {
			s.items.add(hash, at, rec.size)
		}
		if n := len(s.at); n == sampled {
			s.reserve(int(size * int64(n+n/16) / (at + int64(rec.size))))
		}
		return nil
	})
}

// repair sets the segment's file aside and goes on with a new one of its whole
// records. It returns the size of that. Should it fail, as on a full disk, the
// segment stays as it is, and nothing is added to it.
func (o *Outbox) repair(s *segment) (good int64, err error) {
	size, aside, kept := s.size, durable.DamagedName(s.path, o.cfg.Now()), int64(0)
	err = s.disk.Link(s.path, aside)
	var f durable.File
	if err == nil {
		f, err = s.rewrite(func(to io.Writer) error {
			w := window{f: s.f}
			_, _, err := w.records(size, func(at int64, rec record) error {
				b, err := w.read(at, rec.size)
				if err == nil {
					_, err = to.Write(b)
				}
				kept += int64(rec.size)
				return err
			})
			return err
		})
	}
	if err != nil {
		s.sealed = true
		o.cfg.Log.Error("outbox damaged and cannot be set aside: going on with what is whole", "file", s.path, "err", err)
		return size, nil
	}
	s.adopt(f, kept)
	o.cfg.Log.Error("outbox damaged: set aside, going on with what is whole",
		"file", s.path, "aside", aside, "kept_bytes", kept, "lost_bytes", size-kept)
	good, _, err = s.index(&patched{f: s.f, size: kept})
	return good, err
}

// applyMarks removes the items that are marked as gone.
func (s *segment) applyMarks() error {
	w := window{f: &patched{f: s.f, size: s.size}}
	err := s.marks.each(func(at, sum uint32) error {
		i, found := slices.BinarySearch(s.at, at)
		if !found || !s.waits(i) {
			return nil
		}
		rec, parsed, err := w.record(int64(at))
		if err == nil && parsed == whole && rec.sum == sum {
			s.items.remove(i, rec.size)
		}
		return err
	})
	if err == nil && s.marks.f != nil {
		var info os.FileInfo
		if info, err = s.marks.f.Stat(); err == nil {
			s.removed, s.deadSince = info.ModTime(), info.ModTime() // as far as is known
		}
	}
	return err
}

// find returns the waiting item with an id, and its record without the body; -1 if
// there is none.
func (s *segment) find(hash uint32, id []byte) (i int, rec record) {
	i = s.items.find(hash, func(at int64) bool {
		var is bool
		rec, is = s.headAt(at, id)
		return is
	})
	return i, rec
}

// headAt returns the record at an offset without its body, and whether it is that of an id.
func (s *segment) headAt(at int64, id []byte) (rec record, is bool) {
	n, _ := s.f.ReadAt(s.head, at) // what was read before an error counts
	rec, err := parseHead(s.head[:n])
	return rec, err == nil && string(rec.id) == string(id)
}

// given returns the bytes of the item i, and of what is none behind it.
func (s *segment) given(i int) int64 {
	next := s.end
	if i+1 < len(s.at) {
		next = int64(s.at[i+1])
	}
	return next - int64(s.at[i])
}

// dead returns how many bytes are of items that are gone.
func (s *segment) dead() int64 { return s.end - s.bytes }

func (s *segment) close() error {
	err := s.marks.close()
	if s.f != nil {
		err = errors.Join(err, s.file.close())
		s.f = nil
	}
	return err
}

// closeFiles closes the segment's files and changes nothing of them.
func (s *segment) closeFiles() {
	s.marks.closeFile()
	if s.f != nil {
		_ = s.f.Close()
		s.f = nil
	}
}

// create makes a new segment for what comes next.
func (o *Outbox) create() (err error) {
	s := o.newSegment(o.next)
	o.next++
	if s.f, err = s.disk.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := s.disk.SyncDir(filepath.Dir(s.path)); err != nil {
		return errors.Join(err, s.f.Close(), s.disk.Remove(s.path))
	}
	s.maxSize = min(o.cfg.SegmentBytes, o.cfg.MaxBytes-o.used())
	o.mu.Lock()
	o.segments = append(o.segments, s)
	o.mu.Unlock()
	o.tail = s
	return nil
}
