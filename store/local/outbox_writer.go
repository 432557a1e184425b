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
)

// run is the only one that writes. It takes all jobs that wait, writes them in
// one go, syncs once, and answers them.
func (o *Outbox) run() {
	defer close(o.stopped)
	for {
		group := o.queue.take()
		if group == nil {
			return
		}
		o.commit(group)
		o.tidy()
	}
}

// commit writes a group and answers each job.
func (o *Outbox) commit(group []*job) {
	if o.log.broken {
		if err := o.rewrite(); err != nil {
			o.logger.Error("outbox cannot be written", "err", err)
			answer(group, err)
			return
		}
	}
	type added struct {
		at   int
		size int
		job  *job
	}
	var (
		buf    []byte
		adds   []added
		inside = map[string]int{} // id -> index in adds
		ok     = group[:0:0]
	)
	for _, j := range group {
		if j.item.ID == "" {
			for _, id := range j.remove {
				if _, waits := o.waiting[id]; waits {
					buf = appendRecord(buf, recordGone, id, nil)
				}
			}
			ok = append(ok, j)
			continue
		}
		if e, waits := o.waiting[j.item.ID]; waits {
			body, err := o.read(e.Value.(*waiting))
			if err == nil && !bytes.Equal(body, j.item.Body) {
				err = fmt.Errorf("item %s: %w", j.item.ID, store.ErrConflict)
			}
			j.done <- err
			continue
		}
		if i, twice := inside[j.item.ID]; twice {
			if bytes.Equal(adds[i].job.item.Body, j.item.Body) {
				ok = append(ok, j)
			} else {
				j.done <- fmt.Errorf("item %s: %w", j.item.ID, store.ErrConflict)
			}
			continue
		}
		if o.log.end+int64(len(buf)+recordHead+len(j.item.ID)+len(j.item.Body)) > o.room {
			j.done <- store.ErrLimit
			continue
		}
		start := len(buf)
		buf = appendRecord(buf, recordLead, j.item.ID, j.item.Body)
		inside[j.item.ID] = len(adds)
		adds = append(adds, added{start, len(buf) - start, j})
		ok = append(ok, j)
	}
	if len(buf) == 0 {
		answer(ok, nil)
		return
	}
	base := o.log.end
	if err := o.log.add(buf, len(adds) > 0); err != nil {
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
	for _, a := range adds {
		o.hold(a.job.item.ID, base+int64(a.at), a.size)
	}
	o.mu.Unlock()
	if len(adds) > 0 {
		o.signal()
	}
	answer(ok, nil)
}

func (o *Outbox) removeAll(jobs []*job) {
	for _, j := range jobs {
		for _, id := range j.remove {
			o.release(id)
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
	dead := o.log.end - o.live
	switch {
	case o.live == 0 && dead >= min(clearFrom, o.room/2):
		o.mu.Lock()
		err = o.log.clear()
		o.mu.Unlock()
	case dead >= min(deadFrom, o.room/4) && dead > o.live:
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
	if o.order.Len() == 0 {
		return o.log.clear()
	}
	old := o.log.f
	err := o.log.replace(o.live, func(w io.Writer) error {
		for e := o.order.Front(); e != nil; e = e.Next() {
			it := e.Value.(*waiting)
			if _, err := io.CopyN(w, io.NewSectionReader(old, it.at, int64(it.size)), int64(it.size)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	at := int64(0)
	for e := o.order.Front(); e != nil; e = e.Next() {
		it := e.Value.(*waiting)
		it.at = at
		at += int64(it.size)
	}
	return nil
}
