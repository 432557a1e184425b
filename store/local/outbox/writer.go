package outbox

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"

	"partneredge/store"
)

// groupReuse bounds the bytes of a group's memory that are used again.
const groupReuse = 1 << 20

// slotsReuse bounds the slots that find the ids of a group and are used again: as many as 400
// items take.
const slotsReuse = 512

// maxYields bounds how often the writer yields to clients before it writes a group.
const maxYields = 8

// run is the outbox's writer. It writes all items that wait at once, syncs once,
// and answers who added them.
func (o *Outbox) run() {
	var g group
	for o.queue.wait() {
		o.gather(&g)
		o.commit(&g)
		g.reset()
		o.tidy()
		o.measure()
	}
}

// group holds the records that are written and synced at once. Its memory is used again.
type group struct {
	jobs     []*job // that were taken from the queue last
	records  []byte
	adds     []added
	touched  uint32   // of touch: what is used is not left out
	inside   items    // finds an id's index in adds
	accepted []*job   // that wait for the records
	others   []*job   // that add nothing
	answers  []answer // to be sent once the queue knows that they have one
}

// answer is that of a job which does not wait for the group's records.
type answer struct {
	to  *job
	err error
}

// added is an item's record in a group.
type added struct {
	at, size int
	hash     uint32
}

func (g *group) reset() {
	if cap(g.records) > groupReuse {
		g.records = nil
	}
	if len(g.inside.slots) > slotsReuse {
		g.inside = items{}
	}
	g.inside.forget()
	clear(g.accepted)
	clear(g.others)
	g.records, g.adds, g.accepted, g.others = g.records[:0], g.adds[:0], g.accepted[:0], g.others[:0]
}

// touch reads the slots where collect looks for the ids of the jobs that were taken. With
// nothing between that depends on them, they come from memory at the same time.
func (g *group) touch(segments []*segment) {
	for _, s := range segments {
		for _, j := range g.jobs {
			g.touched ^= s.touch(j.hash)
		}
	}
}

// gather collects the jobs that wait into a group. Clients that were answered a moment
// ago have more: the writer yields until none of them comes, and collects those that
// came. Else every other group is small, and costs as much.
func (o *Outbox) gather(g *group) {
	for yields := 0; ; yields++ {
		o.freeKnown = false // one that was refused a moment ago may ask again
		g.jobs = o.queue.take(g.jobs[:0], groupBytes-len(g.records))
		if len(g.jobs) == 0 {
			return
		}
		g.touch(o.segments)
		for _, j := range g.jobs {
			if j.id == "" {
				g.others = append(g.others, j)
			} else {
				o.collect(g, j)
			}
		}
		clear(g.jobs)
		if yields == maxYields || len(g.records) >= groupBytes {
			return
		}
		runtime.Gosched()
	}
}

// commit writes the records of a group, then does its other jobs, and answers each. Jobs that
// wait for no disk are answered first.
func (o *Outbox) commit(g *group) {
	if len(g.answers) > 0 {
		o.queue.settle(g.accepted, g.others)
		g.answer()
	}
	base, err := o.write(g)
	if err != nil {
		o.cfg.Log.Error("outbox cannot be written", "err", err)
	}
	o.queue.settle(g.others)
	// Clients that are answered go on while the writer notes where their items are. What
	// they ask then waits for that.
	o.mu.Lock()
	for _, j := range g.accepted {
		j.done <- err
	}
	if err == nil {
		o.note(g, base)
	}
	o.mu.Unlock()
	for _, j := range g.others {
		if j.task != nil {
			g.answers = append(g.answers, answer{j, j.task()})
		} else {
			g.answers = append(g.answers, answer{j, o.remove(j.remove)})
		}
	}
	o.queue.settle()
	g.answer()
}

// answer sends the answers of the group.
func (g *group) answer() {
	for _, a := range g.answers {
		a.to.done <- a.err
	}
	clear(g.answers)
	g.answers = g.answers[:0]
}

// collect adds the record of a job to the group, or the answer of one for which nothing is
// to be written.
func (o *Outbox) collect(g *group, j *job) {
	conflict := func(body []byte) error {
		if bytes.Equal(body, bodyIn(j.record)) {
			return nil
		}
		return fmt.Errorf("item %s: %w", j.id, store.ErrConflict)
	}
	if body, waits := o.bodyOf(j); waits {
		g.answers = append(g.answers, answer{j, conflict(body)})
		return
	}
	inGroup := func(at int64) bool { return bytes.Equal(idIn(j.record), idIn(g.records[at:])) }
	if i := g.inside.find(j.hash, inGroup); i >= 0 {
		a := g.adds[i]
		if err := conflict(bodyIn(g.records[a.at:][:a.size])); err != nil {
			g.answers = append(g.answers, answer{j, err})
		} else {
			g.accepted = append(g.accepted, j)
		}
		return
	}
	if !o.makeRoom(int64(len(g.records) + len(j.record))) {
		g.answers = append(g.answers, answer{j, store.ErrLimit})
		return
	}
	g.inside.add(j.hash, int64(len(g.records)), len(j.record))
	g.adds = append(g.adds, added{len(g.records), len(j.record), j.hash})
	g.records = append(g.records, j.record...)
	g.accepted = append(g.accepted, j)
}

// write writes the group's records at the end of the tail, and returns where.
func (o *Outbox) write(g *group) (base int64, err error) {
	if len(g.records) == 0 {
		return 0, nil
	}
	if err := o.prepareTail(len(g.records)); err != nil {
		return 0, err
	}
	base = o.tail.end
	return base, o.tail.file.add(g.records)
}

// note marks a group's items as waiting. Their records are in the tail from the offset base
// on. o.mu is locked.
func (o *Outbox) note(g *group, base int64) {
	if len(g.adds) == 0 {
		return
	}
	if base == 0 {
		o.tail.begun = o.cfg.Now()
	}
	for _, a := range g.adds {
		o.tail.items.add(a.hash, base+int64(a.at), a.size)
	}
	o.waiting += len(g.adds)
	o.wake.Send()
}

// prepareTail makes the tail ready for size bytes of records. What is in a tail whose sync
// failed is copied to a new file first, and a tail that would become too large is sealed
// for a new segment.
func (o *Outbox) prepareTail(size int) error {
	if t := o.tail; t != nil && t.broken && !o.isWhole(t) {
		o.seal() // it cannot be read, so it is left as it is
	} else if t != nil && t.broken {
		f, err := t.rewrite(func(to io.Writer) error {
			_, err := io.Copy(to, io.NewSectionReader(t.f, 0, t.end))
			return err
		})
		if err != nil {
			return err
		}
		o.mu.Lock()
		t.adopt(f, t.end)
		o.mu.Unlock()
	}
	if t := o.tail; t != nil && (t.end == 0 || t.end+int64(size) <= o.cfg.SegmentBytes) {
		return nil
	} else if t != nil {
		o.seal()
	}
	return o.create()
}

// seal closes the tail to further records; the next one begins a new segment.
func (o *Outbox) seal() {
	o.tail.truncate()
	o.tail = nil
}

// remove removes items. They are gone even if that cannot be written (ErrUnmarked), which is one
// line in the log until it can: after a restart they are handed over again, which the origin
// takes as nothing new.
func (o *Outbox) remove(ids []string) (err error) {
	var id []byte
	for _, text := range ids {
		id = append(id[:0], text...)
		hash := o.hash(id)
		for {
			s, i, rec := o.find(hash, id)
			if i < 0 {
				break
			}
			s.marks.note(s.at[i], rec.sum)
			o.mu.Lock()
			now := o.cfg.Now()
			if s.dead() == 0 || s.erased.Equal(s.removed) {
				s.deadSince = now
			}
			s.items.remove(i, rec.size)
			s.removed = now
			o.waiting--
			o.mu.Unlock()
		}
	}
	for _, s := range o.segments {
		err = cmp.Or(s.marks.write(), err)
	}
	if err != nil && !o.unmarked {
		o.cfg.Log.Error("outbox cannot note what was handed over", "err", err)
	}
	o.unmarked = err != nil
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnmarked, err)
	}
	return nil
}

func (o *Outbox) hash(id []byte) uint32 { return uint32(maphash.Bytes(o.seed, id)) }

// find returns the waiting item with an id: its segment, its index there, which is
// -1 if there is none, and its record without the body. Only the writer calls it.
func (o *Outbox) find(hash uint32, id []byte) (*segment, int, record) {
	for _, s := range o.segments {
		if i, rec := s.find(hash, id); i >= 0 {
			return s, i, rec
		}
	}
	return nil, -1, record{}
}
