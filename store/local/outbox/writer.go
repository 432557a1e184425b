package outbox

import (
	"bytes"
	"fmt"
	"io"

	"partneredge/store"
)

const (
	clearFrom  = 1 << 20 // from this size on the file of an empty outbox is emptied
	deadFrom   = 8 << 20 // the file is rewritten when so many bytes, and half of it, are of removed items
	groupReuse = 1 << 20 // bytes of a group's memory that are used again
)

// run is the outbox's writer. It writes all jobs that wait at once, syncs once,
// and answers them.
func (o *Outbox) run() {
	defer close(o.stopped)
	g := group{inside: map[string]int{}}
	for {
		jobs := o.queue.next()
		if jobs == nil {
			return
		}
		o.commit(&g, jobs)
		g.reset()
		o.tidy()
		o.measure()
	}
}

// group holds the records that are written and synced at once. Its memory is used again.
type group struct {
	records []byte
	adds    []added
	inside  map[string]int // id -> index in adds
}

// added is an item's record in a group.
type added struct {
	at, size int
	job      *job
}

func (g *group) reset() {
	if cap(g.records) > groupReuse {
		g.records = nil
	}
	clear(g.adds)
	clear(g.inside)
	g.records, g.adds = g.records[:0], g.adds[:0]
}

// commit writes jobs as a group, and answers each.
func (o *Outbox) commit(g *group, jobs []*job) {
	var err error
	if o.file.broken {
		err = o.rewrite()
	}
	if err == nil {
		jobs = o.collect(g, jobs)
		err = o.write(g, jobs)
	}
	if err != nil {
		o.cfg.Log.Error("outbox cannot be written", "err", err)
	}
	answer(jobs, err)
}

// collect fills the group with the records of the jobs and returns these. Jobs
// that write nothing are answered at once.
func (o *Outbox) collect(g *group, jobs []*job) []*job {
	ok := jobs[:0]
	for _, j := range jobs {
		if j.item.ID == "" {
			for _, id := range j.remove {
				if _, waits := o.waiting.byID[id]; waits {
					g.records = appendRecord(g.records, recordGone, id, nil)
				}
			}
			ok = append(ok, j)
			continue
		}
		if w, waits := o.waiting.byID[j.item.ID]; waits {
			body, err := o.read(w)
			if err == nil && !bytes.Equal(body, j.item.Body) {
				err = fmt.Errorf("item %s: %w", j.item.ID, store.ErrConflict)
			}
			j.done <- err
			continue
		}
		if i, twice := g.inside[j.item.ID]; twice {
			if bytes.Equal(g.adds[i].job.item.Body, j.item.Body) {
				ok = append(ok, j)
			} else {
				j.done <- fmt.Errorf("item %s: %w", j.item.ID, store.ErrConflict)
			}
			continue
		}
		if !o.hasRoom(o.file.end + int64(len(g.records)+recordHead+len(j.item.ID)+len(j.item.Body))) {
			j.done <- store.ErrLimit
			continue
		}
		start := len(g.records)
		g.records = appendRecord(g.records, recordLead, j.item.ID, j.item.Body)
		g.inside[j.item.ID] = len(g.adds)
		g.adds = append(g.adds, added{start, len(g.records) - start, j})
		ok = append(ok, j)
	}
	return ok
}

// write writes the group, in the file and then in the index. Items to remove are
// removed even if the file cannot be written: after a restart they are handed
// over again, which the origin takes as nothing new.
func (o *Outbox) write(g *group, jobs []*job) error {
	if len(g.records) == 0 {
		return nil
	}
	base := o.file.end
	err := o.file.add(g.records, len(g.adds) > 0)
	o.mu.Lock()
	o.removeAll(jobs)
	if err == nil {
		for _, a := range g.adds {
			o.waiting.add(a.job.item.ID, base+int64(a.at), a.size)
		}
	}
	o.mu.Unlock()
	if err == nil && len(g.adds) > 0 {
		o.signal()
	}
	return err
}

func (o *Outbox) removeAll(jobs []*job) {
	for _, j := range jobs {
		for _, id := range j.remove {
			o.waiting.remove(id)
		}
	}
}

func answer(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// tidy makes the file small again when most of it is of removed items.
func (o *Outbox) tidy() {
	var err error
	dead := o.file.end - o.waiting.size
	switch {
	case o.waiting.size == 0 && dead >= min(clearFrom, o.file.maxSize/2):
		o.mu.Lock()
		err = o.file.clear()
		o.mu.Unlock()
	case dead >= min(deadFrom, o.file.maxSize/4) && dead > o.waiting.size:
		err = o.rewrite()
	}
	if err != nil {
		o.cfg.Log.Error("outbox file cannot be made smaller", "err", err)
	}
}

// rewrite replaces the file by one with only the items that wait.
func (o *Outbox) rewrite() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting.len() == 0 && !o.file.broken {
		return o.file.clear()
	}
	old := o.file.f
	err := o.file.replace(o.waiting.size, func(to io.Writer) error {
		for w := o.waiting.first; w != nil; w = w.after {
			if _, err := io.CopyN(to, io.NewSectionReader(old, w.at, int64(w.size)), int64(w.size)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	at := int64(0)
	for w := o.waiting.first; w != nil; w = w.after {
		w.at = at
		at += int64(w.size)
	}
	return nil
}
