package local

import (
	"container/list"
	"fmt"
	"sync"
	"time"
)

// Record is a copy of something the origin holds.
type Record struct {
	// Ref is what a change names it by: a key's id, an account's id.
	Ref string
	// Frame is the abi frame, opaque to this package.
	Frame string
	// Seq is the last change that the copy takes in.
	Seq int64
	// Fetched is when the origin gave it.
	Fetched time.Time

	changed int64 // the last change known of; above Seq: the copy is out of date
	epoch   int64 // the epoch in which it was fetched
	stale   bool
}

// Stale tells that the origin holds something newer: ask before serving it.
func (r Record) Stale() bool { return r.stale }

// Replica holds records by name, up to a number of bytes, and puts out those that
// have not been used for longest. All is in memory and on disk; a use writes
// nothing.
type Replica struct {
	prefix string
	room   int64
	file   *file

	write sync.Mutex // held by whoever changes the disk; taken before mu
	mu    sync.Mutex // guards what follows
	held  map[string]*list.Element
	byRef map[string]*list.Element
	used  *list.List // of *entry, the last used first
	bytes int64
	epoch int64 // records of an earlier one are stale
	seen  recent
}

type entry struct {
	name    string
	rec     Record
	cost    int64
	unsaved bool // the disk holds an earlier one
}

// overhead is about what an entry takes besides its own bytes, in two maps, a
// list, and buntdb's tree.
const overhead = 700

func newReplica(prefix string, room int64, f *file, epoch int64) (*Replica, error) {
	s := &Replica{
		prefix: prefix, room: room, file: f, epoch: epoch,
		held: map[string]*list.Element{}, byRef: map[string]*list.Element{}, used: list.New(),
		seen: newRecent(recentChanges),
	}
	var unreadable []string
	err := f.each(prefix, "", func(name, value string) bool {
		rec, ok := decodeRecord(value)
		if !ok {
			unreadable = append(unreadable, prefix+name)
			return true
		}
		s.insert(name, rec, int64(len(value)))
		return true
	})
	if err == nil && len(unreadable) > 0 {
		err = f.remove(unreadable...)
	}
	if err == nil {
		err = s.evict()
	}
	if err != nil {
		return nil, fmt.Errorf("read local records: %w", err)
	}
	return s, nil
}

// Get returns the record with this name and counts as a use.
func (s *Replica) Get(name string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.held[name]
	if !ok {
		return Record{}, false
	}
	s.used.MoveToFront(e)
	return s.look(e), true
}

func (s *Replica) look(e *list.Element) Record {
	rec := e.Value.(*entry).rec
	rec.stale = rec.changed > rec.Seq || rec.epoch < s.epoch
	return rec
}

// Put keeps a record that the origin gave, and returns it as it is now known to
// be: already stale, when a change that it does not take in was noted while it
// was on its way. An older copy than the one held is not kept; the one held is
// returned.
func (s *Replica) Put(name string, rec Record) (Record, error) {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	rec.changed = s.seen.last(rec.Ref, rec.Seq)
	rec.epoch = s.epoch
	if e, ok := s.held[name]; ok {
		old := s.look(e)
		if old.Seq > rec.Seq && !old.stale {
			s.mu.Unlock()
			return old, nil
		}
		if old.epoch == s.epoch {
			rec.changed = max(rec.changed, old.changed)
		}
	}
	s.mu.Unlock()
	if err := s.keep(name, rec); err != nil {
		return Record{}, err
	}
	rec.stale = rec.changed > rec.Seq
	return rec, s.evict()
}

// Change notes that change seq concerned ref, and tells whether a record of it
// is held that does not take it in. That record is stale from here on, unless
// replace is given: then what it makes of the frame takes the change in. This
// holds after an error, too, but only until a restart: the change is then to be
// applied again before the cursor moves past it.
func (s *Replica) Change(ref string, seq int64, replace func(frame string) string) (name string, concerned bool, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	s.seen.note(ref, seq)
	e, ok := s.byRef[ref]
	if !ok {
		s.mu.Unlock()
		return "", false, nil
	}
	held := e.Value.(*entry)
	name, rec, unsaved := held.name, held.rec, held.unsaved
	s.mu.Unlock()
	concerned = rec.Seq < seq && (rec.changed < seq || replace != nil)
	if !concerned && !unsaved {
		return name, false, nil
	}
	rec.changed = max(rec.changed, seq)
	if concerned && replace != nil {
		rec.Frame, rec.Seq = replace(rec.Frame), rec.changed
	}
	if err = s.keep(name, rec); err != nil {
		s.mu.Lock()
		s.insert(name, rec, int64(len(rec.Frame)))
		s.held[name].Value.(*entry).unsaved = true
		s.mu.Unlock()
	}
	return name, concerned, err
}

// Drop forgets a record.
func (s *Replica) Drop(name string) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.file.remove(s.prefix + name); err != nil {
		return fmt.Errorf("drop local record: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.held[name]; ok {
		s.forget(e)
	}
	return nil
}

// Len is the number of records held.
func (s *Replica) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Bytes that the records take, about.
func (s *Replica) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// distrust makes every record stale that is held, or on its way and does not
// take in change seq.
func (s *Replica) distrust(epoch, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = epoch
	// Numbers from before may be higher, at an origin that was put back.
	s.seen = newRecent(recentChanges)
	s.seen.floor = seq
}

// keep writes to disk, then to memory. write is held.
func (s *Replica) keep(name string, rec Record) error {
	value := encodeRecord(s.prefix+name, &rec)
	if err := s.file.set(s.prefix+name, value); err != nil {
		return fmt.Errorf("keep local record: %w", err)
	}
	rec.Frame = value[len(value)-len(rec.Frame):] // one copy for the disk's tree and for this
	s.mu.Lock()
	defer s.mu.Unlock()
	s.insert(name, rec, int64(len(value)))
	return nil
}

func (s *Replica) insert(name string, rec Record, size int64) {
	cost := size + int64(len(name)+len(s.prefix)) + overhead
	if e, ok := s.held[name]; ok {
		old := e.Value.(*entry)
		if old.rec.Ref != rec.Ref {
			delete(s.byRef, old.rec.Ref)
		}
		s.bytes += cost - old.cost
		old.rec, old.cost, old.unsaved = rec, cost, false
		s.byRef[rec.Ref] = e
		return
	}
	e := s.used.PushFront(&entry{name: name, rec: rec, cost: cost})
	s.held[name], s.byRef[rec.Ref] = e, e
	s.bytes += cost
}

func (s *Replica) forget(e *list.Element) {
	old := s.used.Remove(e).(*entry)
	delete(s.held, old.name)
	if s.byRef[old.rec.Ref] == e {
		delete(s.byRef, old.rec.Ref)
	}
	s.bytes -= old.cost
}

// evict puts out what was not used for longest until the rest has room, and a
// little more, so that not every record that comes puts one out. write is held,
// or nobody else has the shelf yet.
func (s *Replica) evict() error {
	if s.Bytes() <= s.room {
		return nil
	}
	for {
		var names []string
		s.mu.Lock()
		for s.bytes > s.room-s.room/64 && len(s.held) > 1 && len(names) < 64 {
			last := s.used.Back()
			names = append(names, s.prefix+last.Value.(*entry).name)
			s.forget(last)
		}
		s.mu.Unlock()
		if len(names) == 0 {
			return nil
		}
		if err := s.file.remove(names...); err != nil {
			return fmt.Errorf("evict local records: %w", err)
		}
	}
}

// A record's value: i64 seq, changed, epoch, fetched (microseconds since the
// Unix epoch); text ref, frame. The frame comes last.
func encodeRecord(key string, r *Record) string {
	b := newValue(4*8 + 8 + len(r.Ref) + len(r.Frame))
	b = putInt(b, r.Seq)
	b = putInt(b, r.changed)
	b = putInt(b, r.epoch)
	b = putInt(b, r.Fetched.UnixMicro())
	b = putText(b, r.Ref)
	b = putText(b, r.Frame)
	return seal(key, b)
}

func decodeRecord(v string) (Record, bool) {
	f := openValue(v)
	r := Record{Seq: f.int(), changed: f.int(), epoch: f.int(), Fetched: time.UnixMicro(f.int()).UTC()}
	r.Ref, r.Frame = f.text(), f.text()
	return r, !f.bad
}
