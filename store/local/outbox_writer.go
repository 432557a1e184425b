package local

import (
	"bytes"
	"fmt"
	"io"

	"partneredge/store"
)

const (
	clearFrom = 1 << 20 // an empty outbox's file is emptied from this size on
	deadFrom  = 8 << 20 // a file is rewritten when so much, and half of it, is done with
	groupRoom = 1 << 20 // what is kept of a group's memory
)

// run is the only one that writes. It takes all jobs that wait, writes them in
// one go, syncs once, and answers them.
func (o *Outbox) run() {
	defer close(o.stopped)
	g := group{inside: map[string]int{}}
	for {
		jobs := o.queue.take()
		if jobs == nil {
			return
		}
		o.commit(&g, jobs)
		g.reset()
		o.tidy()
	}
}

// group is what is written and synced in one go. Its room is used again.
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
	if cap(g.records) > groupRoom {
		g.records = nil
	}
	clear(g.adds)
	clear(g.inside)
	g.records, g.adds = g.records[:0], g.adds[:0]
}

// commit writes jobs as a group, and answers each.
func (o *Outbox) commit(g *group, jobs []*job) {
	if o.log.broken {
		if err := o.rewrite(); err != nil {
			o.logger.Error("outbox cannot be written", "err", err)
			answer(jobs, err)
			return
		}
	}
	ok := jobs[:0]
	for _, j := range jobs {
		if j.item.ID == "" {
			for _, id := range j.remove {
				if _, waits := o.waits.byID[id]; waits {
					g.records = appendRecord(g.records, recordGone, id, nil)
				}
			}
			ok = append(ok, j)
			continue
		}
		if w, waits := o.waits.byID[j.item.ID]; waits {
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
		if o.log.end+int64(len(g.records)+recordHead+len(j.item.ID)+len(j.item.Body)) > o.log.room {
			j.done <- store.ErrLimit
			continue
		}
		start := len(g.records)
		g.records = appendRecord(g.records, recordLead, j.item.ID, j.item.Body)
		g.inside[j.item.ID] = len(g.adds)
		g.adds = append(g.adds, added{start, len(g.records) - start, j})
		ok = append(ok, j)
	}
	if len(g.records) == 0 {
		answer(ok, nil)
		return
	}
	base := o.log.end
	if err := o.log.add(g.records, len(g.adds) > 0); err != nil {
		// What was to be removed has been handed over all the same: after a
		// restart it is handed over again, which the origin takes as nothing new.
		o.mu.Lock()
		o.removeAll(ok)
		o.mu.Unlock()
		o.logger.Error("outbox cannot be written", "err", err)
		answer(ok, err)
		return
	}
	o.mu.Lock()
	o.removeAll(ok)
	for _, a := range g.adds {
		o.waits.hold(a.job.item.ID, base+int64(a.at), a.size)
	}
	o.mu.Unlock()
	if len(g.adds) > 0 {
		o.signal()
	}
	answer(ok, nil)
}

func (o *Outbox) removeAll(jobs []*job) {
	for _, j := range jobs {
		for _, id := range j.remove {
			o.waits.release(id)
		}
	}
}

func answer(jobs []*job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// tidy makes the file small again when most of it is done with.
func (o *Outbox) tidy() {
	var err error
	dead := o.log.end - o.waits.size
	switch {
	case o.waits.size == 0 && dead >= min(clearFrom, o.log.room/2):
		o.mu.Lock()
		err = o.log.clear()
		o.mu.Unlock()
	case dead >= min(deadFrom, o.log.room/4) && dead > o.waits.size:
		err = o.rewrite()
	}
	if err != nil {
		o.logger.Error("outbox file cannot be made smaller", "err", err)
	}
}

// rewrite puts a file in place that holds only what waits.
func (o *Outbox) rewrite() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits.len() == 0 {
		return o.log.clear()
	}
	old := o.log.f
	err := o.log.replace(o.waits.size, func(to io.Writer) error {
		for w := o.waits.first; w != nil; w = w.after {
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
	for w := o.waits.first; w != nil; w = w.after {
		w.at = at
		at += int64(w.size)
	}
	return nil
}
