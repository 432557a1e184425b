package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"partneredge/store"
)

// Outbox keeps items in a file of its own until they have been handed over.
// When Append returns nil the item is on disk: appenders that come while the
// disk is busy share its next sync.
//
// buntdb is not used here: it does not tell when a sync failed, and shrinks
// into a file that it puts in place without syncing it.
type Outbox struct {
	aside  string // the file of items that were set aside
	now    func() time.Time
	logger *slog.Logger

	queue   queue
	stopped chan struct{}
	wake    chan struct{}

	jobs sync.Pool // of *job that are done

	mu    sync.Mutex // guards what follows; only the writer changes it
	log   *outboxFile
	waits index
}

// Item of an outbox.
type Item struct {
	ID   string
	Body []byte
}

// ErrClosed is returned by an outbox that has been closed.
var ErrClosed = errors.New("outbox is closed")

// openOutbox reads the outbox at path; items set aside go to the file aside.
func openOutbox(path, aside string, room int64, log *slog.Logger, now func() time.Time) (*Outbox, error) {
	o := &Outbox{
		aside: aside, now: now, logger: log,
		queue: newQueue(), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		waits: index{byID: map[string]*waiting{}},
	}
	o.jobs.New = func() any { return &job{done: make(chan error, 1)} }
	l, m, err := openLog(path, room, now(), func(at int64, kind byte, id string, size int) {
		switch kind {
		case recordLead:
			o.waits.hold(id, at, size)
		case recordGone:
			o.waits.release(id)
		}
	})
	if err != nil {
		return nil, err
	}
	if m.aside != "" {
		log.Error("outbox damaged: set aside, going on with what is whole",
			"file", path, "aside", m.aside, "kept_bytes", m.kept, "lost_bytes", m.lost)
	}
	o.log = l
	if o.waits.len() > 0 {
		o.signal()
	}
	go o.run()
	return o, nil
}

// Append returns once the item is on disk. An id that waits already is not
// added again; store.ErrConflict when its body is another. store.ErrLimit when
// the outbox is full. When ctx ends first, the item may or may not be kept.
func (o *Outbox) Append(ctx context.Context, it Item) error {
	if it.ID == "" || len(it.ID) > maxID || len(it.Body) > maxBody {
		return fmt.Errorf("append to outbox: %w", store.ErrInvalid)
	}
	if err := o.ask(ctx, it, nil); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Remove forgets items that have been handed over. Should the power fail right
// after, they may be back.
func (o *Outbox) Remove(ctx context.Context, ids ...string) error {
	if err := o.ask(ctx, Item{}, ids); err != nil {
		return fmt.Errorf("remove from outbox: %w", err)
	}
	return nil
}

// SetAside takes an item that can never be handed over out of the outbox and
// adds it, with the reason, to a file for the operator: one JSON object a line,
// {"id", "at", "reason", "body"}.
func (o *Outbox) SetAside(ctx context.Context, it Item, reason string) error {
	line, err := json.Marshal(struct {
		ID     string          `json:"id"`
		At     time.Time       `json:"at"`
		Reason string          `json:"reason"`
		Body   json.RawMessage `json:"body"`
	}{it.ID, o.now().UTC(), reason, it.Body})
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	f, err := os.OpenFile(o.aside, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	return o.Remove(ctx, it.ID)
}

// Pending returns what waits, in the order it came, at most most items and,
// beyond the first, at most size bytes of bodies. Those for which skip, if
// given, is true are left out.
func (o *Outbox) Pending(most, size int, skip func(id string) bool) ([]Item, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var items []Item
	for w := o.waits.first; w != nil && len(items) < most; w = w.after {
		if w.unreadable || skip != nil && skip(w.id) {
			continue
		}
		if size < w.size && len(items) > 0 {
			break
		}
		size -= w.size
		body, err := o.read(w)
		if errors.Is(err, errDamaged) {
			// It stays in the file, which the next start sets aside.
			w.unreadable = true
			o.logger.Error("outbox item can no longer be read", "id", w.id)
			continue
		}
		if err != nil {
			return items, fmt.Errorf("read outbox: %w", err)
		}
		items = append(items, Item{w.id, body})
	}
	return items, nil
}

// Len is how many items wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waits.len()
}

// Wake receives after items were added, and once at the start when some wait.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Close waits for what is being written. It may be called twice.
func (o *Outbox) Close() error {
	o.queue.close()
	<-o.stopped
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log.f == nil {
		return nil
	}
	err := o.log.close()
	o.log.f = nil
	return err
}

// ask has the writer add an item, or remove what has the ids.
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
	if o.log.f == nil {
		return nil, ErrClosed
	}
	b := make([]byte, w.size)
	if _, err := o.log.f.ReadAt(b, w.at); err != nil {
		return nil, err
	}
	_, id, body, _, ok, _ := parseRecord(b)
	if !ok || id != w.id {
		return nil, fmt.Errorf("item %s: %w", w.id, errDamaged)
	}
	return body, nil
}
