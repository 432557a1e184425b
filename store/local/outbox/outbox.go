// Package outbox keeps items, such as leads, on a node's disk until they have been
// handed over.
package outbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/signal"
)

// Outbox keeps items in files of its own, its segments, until they have been handed
// over. When Append returns nil, the item is on disk. Callers that come while the
// disk is busy share its next sync.
type Outbox struct {
	cfg   Config
	seed  maphash.Seed
	zeros []byte // see file

	queue   *queue
	stop    context.CancelFunc // of the goroutine that asks for upkeep
	running sync.WaitGroup
	wake    signal.Signal

	jobs sync.Pool // of *job, to use again
	room room

	// Of the writer alone:
	tail *segment  // that items are added to; nil if none is there yet
	kept []kept    // the oldest first
	next int       // number of the next segment
	rest time.Time // no segment is made smaller before: the disk would not take it

	unmarked bool // the disk does not take the marks of some items that are gone

	free      int64 // bytes of the disk that may still be taken, when a job collected asked
	freeKnown bool  // one has asked

	upkeptAt time.Time // when the last upkeep was
	steady   int       // upkeeps in a row that found the clock going on as it should

	mu       sync.Mutex // guards the fields below, which only the writer changes
	segments []*segment // in the order of their numbers
	waiting  int
	window   window // of Pending

	aside aside // of those who call Rejected and RemoveRejected, one at a time
}

// Item is one entry of an outbox, such as a lead.
type Item struct {
	ID   string
	Body []byte
}

// ErrClosed is the error of an outbox that has been closed.
var ErrClosed = errors.New("outbox is closed")

// ErrUnmarked is the error of items that are removed although the disk does not take that: they
// may be back after a restart.
var ErrUnmarked = errors.New("the disk does not take which items are gone")

// ErrMoreBehind is an error of Pending: behind items that the disk does not read, there may be
// others that it does, and the next call goes on with them.
var ErrMoreBehind = errors.New("more items lie behind")

// errDamaged is the error of a record that is not as it was written.
var errDamaged = errors.New("damaged")

// Config of an Outbox. A field without a default is required.
type Config struct {
	Disk durable.Disk // default: the machine's
	// Path is the path of the first segment. Those that follow are at Path.NUMBER; a
	// segment's marks, of items that are gone, are at its own path with ".gone".
	Path         string
	RejectedPath string // of the first file of items that were set aside, see maxAside
	MaxBytes     int64  // of all segments
	SegmentBytes int64  // about how large a segment becomes. 0: 64 MiB
	// KeepFor is the time for which items are kept after they were removed, for
	// OfferAgain: at most an hour longer, or twice as long where the clock was put
	// back. They take a quarter of MaxBytes and of the free disk at most, and give way
	// to items that wait. 0: they are not kept, but stay for an hour at most beside one that waits.
	KeepFor time.Duration
	// Free returns how many bytes the disk of a directory has, and how many of them
	// may still be used. nil: durable.Free.
	Free func(dir string) (free, total int64, err error)
	Log  *slog.Logger
	Now  func() time.Time
}

// upkeepEvery is the time between two upkeeps.
const upkeepEvery = time.Minute

// Open opens the outbox at c.Path, or makes a new one. That needs no space on the
// disk unless something is damaged.
func Open(c Config) (*Outbox, error) {
	c.SegmentBytes = min(cmp.Or(c.SegmentBytes, 64<<20), maxSegment)
	clock := c.Now
	c.Now = func() time.Time { return clock().Round(0) } // as the files' times are, and so that a jump shows
	o := &Outbox{
		cfg: c, seed: maphash.MakeSeed(), zeros: make([]byte, preallocate),
		queue: newQueue(), wake: signal.New(),
	}
	o.jobs.New = func() any { return &job{done: make(chan error, 2)} }
	if err := o.load(); err != nil {
		return nil, errors.Join(err, o.closeSegments())
	}
	o.trim()
	o.tidy()
	o.measure()
	if o.waiting > 0 {
		o.wake.Send()
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	o.running.Go(o.run)
	o.running.Go(func() { o.askForUpkeep(ctx) })
	return o, nil
}

// Append returns once the item is on disk. An id that waits already is not added
// again; if its body is another, the error is store.ErrConflict. If the outbox is
// full, or its disk nearly is, it is store.ErrLimit. When ctx ends first, which is
// noticed once the writer has been busy with one group of items for 20 ms, the item may or
// may not be kept.
func (o *Outbox) Append(ctx context.Context, it Item) error {
	if it.ID == "" || len(it.ID) > maxID || len(it.Body) > maxBody {
		return fmt.Errorf("append to outbox: %w", store.ErrInvalid)
	}
	j := o.jobs.Get().(*job)
	j.id, j.record = it.ID, appendRecord(j.record, recordLead, it.ID, it.Body)
	j.hash = o.hash(idIn(j.record))
	if err := o.await(ctx, j); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Remove removes items that have been handed over. Should the power fail right
// after, they may be back. The error is ErrUnmarked when they are removed and the disk does not
// take that. See also OfferAgain.
func (o *Outbox) Remove(ctx context.Context, ids ...string) error {
	if err := o.ask(ctx, job{remove: ids}); err != nil {
		return fmt.Errorf("remove from outbox: %w", err)
	}
	return nil
}

// Pending returns the items that wait, in the order they came: at most maxItems
// and, beyond the first, at most size bytes of records. Items for which skip, if
// given, returns true are left out, and so are those that the disk does not read: they are
// tried again after unreadFor, behind all others. The error is that of the first one that was
// tried in this call, and the items come with it. It is also ErrMoreBehind when the call has
// tried enough in vain and the others are soon read.
func (o *Outbox) Pending(maxItems, size int, skip func(id string) bool) ([]Item, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := batch{o: o, maxItems: maxItems, size: size, skip: skip, tries: maxUnreadTries}
	for _, s := range o.segments {
		if s.f == nil {
			return p.items, ErrClosed
		}
		p.begin(s)
		for i := s.first; i < len(s.at) && s.waiting > 0; i++ {
			if _, unread := s.unreadable[i]; unread || !s.waits(i) {
				continue
			}
			if !p.take(s, i) {
				return p.items, o.moreBehind(&p)
			}
		}
	}
	var last *segment
	for _, one := range o.due() {
		if one.s != last {
			last = one.s
			p.begin(last)
		}
		if o.passesOver(last, one.i) { // it lies in a block that was tried just now
			continue
		}
		if !p.take(last, one.i) {
			break
		}
	}
	return p.items, p.failed
}

// batch collects the items that a call of Pending returns.
type batch struct {
	o        *Outbox
	maxItems int
	size     int // bytes of records that may still be taken
	skip     func(id string) bool
	tries    int // in vain that are left
	items    []Item
	failed   error
}

// begin goes on with another segment.
func (p *batch) begin(s *segment) {
	p.o.window.reset(s.f)
	p.o.window.exact = s.unreadBytes() > 0 // a disk may try for seconds to read what lies behind
}

// take reads the item i, which waits. It returns false when no more are to be taken.
func (p *batch) take(s *segment, i int) bool {
	if len(p.items) == p.maxItems {
		return false
	}
	w := &p.o.window
	rec, found, err := w.record(int64(s.at[i]))
	if err != nil {
		p.o.noteUnread(s, i, w.end(), err)
		p.failed = cmp.Or(p.failed, fmt.Errorf("read outbox: %w", err))
		p.tries--
		return p.tries > 0
	}
	if found != whole {
		p.o.noteDamaged(s, i)
		return true
	}
	delete(s.unreadable, i)
	id := string(rec.id)
	if p.skip != nil && p.skip(id) {
		return true
	}
	if p.size < rec.size && len(p.items) > 0 {
		return false
	}
	p.size -= rec.size
	p.items = append(p.items, Item{id, bytes.Clone(rec.body)})
	return true
}

// Len returns how many items wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting
}

// Wake returns a channel that receives after items were added, and once at the
// start when some wait.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Close waits until all jobs are written. It may be called twice.
func (o *Outbox) Close() error {
	o.stop()
	o.queue.close()
	o.running.Wait()
	return o.closeSegments()
}

func (o *Outbox) closeSegments() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	for _, s := range o.segments {
		err = errors.Join(err, s.close())
	}
	return err
}

// ask gives the writer a job and waits until it is done.
func (o *Outbox) ask(ctx context.Context, what job) error {
	j := o.jobs.Get().(*job)
	j.remove, j.task = what.remove, what.task
	return o.await(ctx, j)
}

// await gives the writer a job of o.jobs, waits until it is done, and puts it back there.
func (o *Outbox) await(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !o.queue.push(j) {
		return ErrClosed
	}
	err := <-j.done
	if err == errSlow {
		select {
		case err = <-j.done:
		case <-ctx.Done(): // the writer still has the job
			return ctx.Err()
		}
	}
	j.reset()
	o.jobs.Put(j)
	return err
}
