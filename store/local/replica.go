package local

import (
	"container/list"
	"fmt"
	"sync"
	"time"
)

// Record is a node's copy of one of the origin's records.
type Record struct {
	// Ref is the id by which changes name the record, such as a key's.
	Ref string
	// Frame is the record as an abi frame, opaque to this package.
	Frame string
	// Seq is the number of the last change that Frame includes.
	Seq int64
	// Fetched is when the origin sent the record.
	Fetched time.Time
	// By is the hash of the key in whose name the record was fetched, "" of a key's own
	// record. The file does not hold it: after a restart it is "".
	By string

	changed int64 // last change known; above Seq, the record is out of date
	epoch   int64 // epoch in which the record was fetched

	stale      bool
	staleSince time.Time
}

// Stale reports whether the origin holds something newer. A stale record must be
// fetched again before it is served.
func (r Record) Stale() bool { return r.stale }

// StaleSince returns since when no current copy of a stale record has been held. The file does
// not hold it: after a restart it is the time when the record was fetched.
func (r Record) StaleSince() time.Time { return r.staleSince }

// Replica holds Records by name, up to a number of bytes, and evicts
// the least recently used. All of them are in memory and in the file; a read
// writes nothing.
type Replica struct {
	prefix   string // of the records' keys in the file
	maxBytes int64
	file     *file
	now      func() time.Time

	write  sync.Mutex // held while the file is changed; locked before mu
	mu     sync.Mutex // guards the fields below
	byName map[string]*list.Element
	byRef  map[string]*list.Element
	used   *list.List // of *entry, the last used first
	bytes  int64
	epoch  int64 // records of an earlier epoch are stale
	latest int64 // epoch of any record in the file when it was opened
	recent recentChanges
}

type entry struct {
	name  string
	rec   Record
	bytes int64
}

// overhead is about how many bytes an entry takes besides its own, in two maps,
// a list and buntdb's tree.
const overhead = 700

func newReplica(prefix string, maxBytes int64, f *file, epoch int64, now func() time.Time) (*Replica, error) {
	r := &Replica{
		prefix: prefix, maxBytes: maxBytes, file: f, now: now, epoch: epoch,
		byName: map[string]*list.Element{}, byRef: map[string]*list.Element{}, used: list.New(),
		recent: newRecentChanges(maxRecent),
	}
	var unreadable []string
	err := f.each(prefix, "", func(name, value string) bool {
		rec, ok := decodeRecord(value)
		if !ok {
			unreadable = append(unreadable, prefix+name)
			return true
		}
		r.latest = max(r.latest, rec.epoch)
		r.mark(&rec, rec.Fetched)
		r.insert(name, rec, int64(len(value)))
		return true
	})
	if err == nil && len(unreadable) > 0 {
		err = f.remove(unreadable...)
	}
	if err == nil {
		err = r.evict()
	}
	if err != nil {
		return nil, fmt.Errorf("read local records: %w", err)
	}
	return r, nil
}

// Get returns the record with this name and marks it as used.
func (r *Replica) Get(name string) (Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byName[name]
	if !ok {
		return Record{}, false
	}
	r.used.MoveToFront(e)
	return e.Value.(*entry).rec, true
}

// Find returns the record that changes name by ref, and its name. It does not mark
// the record as used.
func (r *Replica) Find(ref string) (name string, rec Record, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byRef[ref]
	if !ok {
		return "", Record{}, false
	}
	return e.Value.(*entry).name, e.Value.(*entry).rec, true
}

// mark notes whether a record is stale, and since when unless it was before. mu is held.
func (r *Replica) mark(rec *Record, since time.Time) {
	was := rec.stale
	rec.stale = rec.changed > rec.Seq || rec.epoch < r.epoch
	switch {
	case !rec.stale:
		rec.staleSince = time.Time{}
	case !was:
		rec.staleSince = since
	}
}

// Epoch returns the epoch of the records that are current. Callers read it before they ask
// the origin and hand it to Put.
func (r *Replica) Epoch() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// Put stores a record that the origin sent and returns it. epoch is that of the replica
// before the origin was asked. The record returned is stale when a change that it does not
// include was noted while it was on its way, or a reset was. Then it is not stored, unless one
// of its name is held: the change may be the deletion of an account, and nothing else would
// drop the record. If a newer one is held, that is returned and rec is not stored.
func (r *Replica) Put(name string, rec Record, epoch int64) (Record, error) {
	r.write.Lock()
	defer r.write.Unlock()
	r.mu.Lock()
	if epoch != r.epoch {
		// The origin may have sent it before it was restored from a backup, so its number
		// says nothing of how new it is.
		defer r.mu.Unlock()
		if e, ok := r.byName[name]; ok {
			return e.Value.(*entry).rec, nil
		}
		rec.epoch, rec.stale = epoch, true
		return rec, nil
	}
	rec.changed = r.recent.last(rec.Ref, rec.Seq)
	rec.epoch = r.epoch
	rec.stale = false
	if e, ok := r.byName[name]; ok {
		old := e.Value.(*entry).rec
		if old.Seq > rec.Seq && !old.stale {
			r.mu.Unlock()
			return old, nil
		}
		if old.epoch == r.epoch {
			rec.changed = max(rec.changed, old.changed)
		}
		rec.stale, rec.staleSince = old.stale, old.staleSince
	} else if rec.changed > rec.Seq {
		r.mu.Unlock()
		rec.stale = true
		return rec, nil
	}
	r.mu.Unlock()
	if err := r.save(name, &rec); err != nil {
		return Record{}, err
	}
	return rec, r.evict()
}

// Change notes that change seq concerns ref. concerned reports whether a record of
// that ref is held which does not include the change. That record is stale from
// then on, unless replace is given: its result is the frame with the change.
func (r *Replica) Change(ref string, seq int64, replace func(frame string) string) (name string, concerned bool, err error) {
	r.write.Lock()
	defer r.write.Unlock()
	r.mu.Lock()
	r.recent.note(ref, seq)
	e, ok := r.byRef[ref]
	if !ok {
		r.mu.Unlock()
		return "", false, nil
	}
	old := e.Value.(*entry)
	name, rec := old.name, old.rec
	r.mu.Unlock()
	if rec.Seq >= seq || rec.changed >= seq && replace == nil {
		return name, false, nil
	}
	rec.changed = max(rec.changed, seq)
	if replace != nil {
		rec.Frame, rec.Seq = replace(rec.Frame), rec.changed
	}
	return name, true, r.save(name, &rec)
}

// Note takes in the changes at 0 to n-1. at returns the ref that one concerns and its
// number; mine is false for one that is another replica's. Note returns the places of
// those of which a record is held, and the caller calls Change for each. The others are
// done with.
func (r *Replica) Note(n int, at func(i int) (ref string, seq int64, mine bool)) (held []int) {
	r.write.Lock() // no record is half way in, which the note would come too late for
	defer r.write.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		ref, seq, mine := at(i)
		if !mine {
			continue
		}
		if _, ok := r.byRef[ref]; ok {
			held = append(held, i) // Change notes it
			continue
		}
		r.recent.note(ref, seq)
	}
	return held
}

// Drop removes a record.
func (r *Replica) Drop(name string) error {
	r.write.Lock()
	defer r.write.Unlock()
	value, err := r.file.get(r.prefix + name)
	if err == nil && value != "" { // of a made-up key nothing is there, and nothing is written
		err = r.file.remove(r.prefix + name)
	}
	if err != nil {
		return fmt.Errorf("drop local record: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byName[name]; ok {
		r.unlink(e)
	}
	return nil
}

// Records returns all records, and does not mark them as used.
func (r *Replica) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Record, 0, r.used.Len())
	for e := r.used.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*entry).rec)
	}
	return all
}

// StaleNames returns the names of those that are stale of the n records used last, the
// last used first.
func (r *Replica) StaleNames(n int) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.used.Front(); e != nil && n > 0; e = e.Next() {
		if held := e.Value.(*entry); held.rec.stale {
			names = append(names, held.name)
		}
		n--
	}
	return names
}

// IsStale reports whether a record is held and stale. It does not mark the record as
// used.
func (r *Replica) IsStale(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, held := r.byName[name]
	return held && e.Value.(*entry).rec.stale
}

// Len returns the number of records held.
func (r *Replica) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byName)
}

// Bytes returns about how many bytes the records take.
func (r *Replica) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// invalidate makes every record stale that is held, or that is on its way and
// does not include change seq.
func (r *Replica) invalidate(epoch, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch = epoch
	// Earlier numbers may be higher, if the origin was restored from a backup.
	r.recent = newRecentChanges(maxRecent)
	r.recent.forgot = seq
	now := r.now()
	for e := r.used.Front(); e != nil; e = e.Next() {
		r.mark(&e.Value.(*entry).rec, now)
	}
}

// save stores a record in the file, then in memory, and marks it. write is held.
func (r *Replica) save(name string, rec *Record) error {
	value := encodeRecord(r.prefix+name, rec)
	if err := r.file.set(r.prefix+name, value); err != nil {
		return fmt.Errorf("store local record: %w", err)
	}
	rec.Frame = value[len(value)-len(rec.Frame):] // shares the memory of the value in buntdb's tree
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark(rec, r.now())
	r.insert(name, *rec, int64(len(value)))
	return nil
}

func (r *Replica) insert(name string, rec Record, valueSize int64) {
	size := valueSize + int64(len(name)+len(r.prefix)) + overhead
	if e, ok := r.byName[name]; ok {
		old := e.Value.(*entry)
		if old.rec.Ref != rec.Ref {
			delete(r.byRef, old.rec.Ref)
		}
		r.bytes += size - old.bytes
		old.rec, old.bytes = rec, size
		r.byRef[rec.Ref] = e
		return
	}
	e := r.used.PushFront(&entry{name: name, rec: rec, bytes: size})
	r.byName[name], r.byRef[rec.Ref] = e, e
	r.bytes += size
}

func (r *Replica) unlink(e *list.Element) {
	old := r.used.Remove(e).(*entry)
	delete(r.byName, old.name)
	if r.byRef[old.rec.Ref] == e {
		delete(r.byRef, old.rec.Ref)
	}
	r.bytes -= old.bytes
}

// evict removes the least recently used records until the others take a little
// less than maxBytes, so that not every new record evicts one. write is held, or
// nobody else has the replica yet.
func (r *Replica) evict() error {
	if r.Bytes() <= r.maxBytes {
		return nil
	}
	for {
		last, names := r.leastUsed(64)
		if len(last) == 0 {
			return nil
		}
		if err := r.file.remove(names...); err != nil {
			return fmt.Errorf("evict local records: %w", err)
		}
		r.mu.Lock()
		for _, e := range last {
			r.unlink(e)
		}
		r.mu.Unlock()
	}
}

// leastUsed returns up to most records that are to be evicted, and their keys in the file.
// They stay in memory until they are gone from there: should that fail, changes must find
// them.
func (r *Replica) leastUsed(most int) (last []*list.Element, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.bytes
	for e := r.used.Back(); left > r.maxBytes-r.maxBytes/64 && e != r.used.Front() && len(last) < most; e = e.Prev() {
		last = append(last, e)
		keys = append(keys, r.prefix+e.Value.(*entry).name)
		left -= e.Value.(*entry).bytes
	}
	return last, keys
}

// encodeRecord writes a record's value: i64 seq, changed, epoch, fetched (microseconds
// since the Unix epoch); text ref, frame. The frame comes last.
func encodeRecord(key string, rec *Record) string {
	b := newValue(4*8 + 8 + len(rec.Ref) + len(rec.Frame))
	b = putInt(b, rec.Seq)
	b = putInt(b, rec.changed)
	b = putInt(b, rec.epoch)
	b = putInt(b, rec.Fetched.UnixMicro())
	b = putText(b, rec.Ref)
	b = putText(b, rec.Frame)
	return seal(key, b)
}

func decodeRecord(v string) (Record, bool) {
	f := openValue(v)
	r := Record{Seq: f.int(), changed: f.int(), epoch: f.int(), Fetched: time.UnixMicro(f.int()).UTC()}
	r.Ref, r.Frame = f.text(), f.text()
	return r, !f.bad
}
