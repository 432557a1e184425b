// Package outbox keeps items, such as leads, on a node's disk until they have been
// handed over.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
)

// Outbox keeps items in a file of its own until they have been handed over.
// When Append returns nil, the item is on disk. Callers that come while the disk
// is busy share its next sync.
type Outbox struct {
	cfg Config

	queue   *queue
	stopped chan struct{}
	wake    chan struct{}

	jobs sync.Pool // of *job, to use again
	room room

	mu      sync.Mutex // guards the fields below, which only the writer changes
	file    *file
	waiting index
}

// Item is one entry of an outbox, such as a lead.
type Item struct {
	ID   string
	Body []byte
}

// ErrClosed is the error of an outbox that has been closed.
var ErrClosed = errors.New("outbox is closed")

// errDamaged is the error of a record that is not as it was written.
var errDamaged = errors.New("damaged")

// Config of an Outbox. Every field but Disk and Free is required.
type Config struct {
	Disk         durable.Disk
	Path         string // of the file of items that wait
	RejectedPath string // of the file of items that were set aside
	MaxBytes     int64  // of the file at Path
	// Free returns how many bytes the disk of a directory has, and how many of them
	// may still be used. nil: durable.Free.
	Free func(dir string) (free, total int64, err error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Open opens the outbox at c.Path, or makes a new one.
func Open(c Config) (*Outbox, error) {
	o := &Outbox{
		cfg: c, queue: newQueue(), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		waiting: index{byID: map[string]*waiting{}},
	}
	o.jobs.New = func() any { return &job{done: make(chan error, 1)} }
	file, err := openFile(c, func(at int, rec record) {
		switch rec.kind {
		case recordLead:
			o.waiting.add(rec.id, int64(at), rec.size)
		case recordGone:
			o.waiting.remove(rec.id)
		}
	})
	if err != nil {
		return nil, err
	}
	o.file = file
	o.measure()
	if o.waiting.len() > 0 {
		o.signal()
	}
	go o.run()
	return o, nil
}

// Append returns once the item is on disk. An id that waits already is not added
// again; if its body is another, the error is store.ErrConflict. If the outbox is
// full, or its disk nearly is, it is store.ErrLimit. When ctx ends first, the item may or may not be kept.
func (o *Outbox) Append(ctx context.Context, it Item) error {
	if it.ID == "" || len(it.ID) > maxID || len(it.Body) > maxBody {
		return fmt.Errorf("append to outbox: %w", store.ErrInvalid)
	}
	if err := o.ask(ctx, it, nil); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Remove removes items that have been handed over. Should the power fail right
// after, they may be back.
func (o *Outbox) Remove(ctx context.Context, ids ...string) error {
	if err := o.ask(ctx, Item{}, ids); err != nil {
		return fmt.Errorf("remove from outbox: %w", err)
	}
	return nil
}

// Pending returns the items that wait, in the order they came: at most maxItems
// and, beyond the first, at most size bytes of records. Items for which skip, if
// given, returns true are left out.
func (o *Outbox) Pending(maxItems, size int, skip func(id string) bool) ([]Item, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var items []Item
	for w := o.waiting.first; w != nil && len(items) < maxItems; w = w.after {
		if w.unreadable || skip != nil && skip(w.id) {
			continue
		}
		if size < w.size && len(items) > 0 {
			break
		}
		size -= w.size
		body, err := o.read(w)
		if errors.Is(err, errDamaged) {
			// It stays in the file, which is set aside at the next start.
			w.unreadable = true
			o.cfg.Log.Error("outbox item can no longer be read", "id", w.id)
			continue
		}
		if err != nil {
			return items, fmt.Errorf("read outbox: %w", err)
		}
		items = append(items, Item{w.id, body})
	}
	return items, nil
}

// Len returns how many items wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting.len()
}

// Wake returns a channel that receives after items were added, and once at the
// start when some wait.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Close waits until all jobs are written. It may be called twice.
func (o *Outbox) Close() error {
	o.queue.close()
	<-o.stopped
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file.f == nil {
		return nil
	}
	err := o.file.close()
	o.file.f = nil
	return err
}

// ask has the writer add an item, or remove those with the ids.
func (o *Outbox) ask(ctx context.Context, it Item, remove []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := o.jobs.Get().(*job)
	j.item, j.remove = it, remove
	if !o.queue.push(j) {
		return ErrClosed
	}
	select {
	case err := <-j.done:
		j.item, j.remove = Item{}, nil
		o.jobs.Put(j)
		return err
	case <-ctx.Done(): // the writer still has the job
		return ctx.Err()
	}
}

func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// read returns a waiting item's body. mu is held.
func (o *Outbox) read(w *waiting) ([]byte, error) {
	if o.file.f == nil {
		return nil, ErrClosed
	}
	b := make([]byte, w.size)
	if _, err := o.file.f.ReadAt(b, w.at); err != nil {
		return nil, err
	}
	rec, found := parseRecord(b)
	if found != whole || rec.id != w.id {
		return nil, fmt.Errorf("item %s: %w", w.id, errDamaged)
	}
	return rec.body, nil
}
