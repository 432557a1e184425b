package local

import (
	"container/list"
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
	room   int64
	aside  string // the file of items that were set aside
	now    func() time.Time
	logger *slog.Logger

	queue   queue
	stopped chan struct{}
	wake    chan struct{}

	mu      sync.Mutex // guards what follows; only the writer changes it
	log     *logFile
	waiting map[string]*list.Element
	order   *list.List // of *waiting, as they came
	live    int64      // bytes of what waits
}

// Item of an outbox.
type Item struct {
	ID   string
	Body []byte
}

type waiting struct {
	id         string
	at         int64
	size       int
	unreadable bool
}

// ErrClosed is returned by an outbox that has been closed.
var ErrClosed = errors.New("outbox is closed")

// openOutbox reads the outbox at path; items set aside go to the file aside.
func openOutbox(path, aside string, room int64, log *slog.Logger, now func() time.Time) (*Outbox, error) {
	o := &Outbox{
		room: room, aside: aside, now: now, logger: log,
		queue: newQueue(), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		waiting: map[string]*list.Element{}, order: list.New(),
	}
	l, m, err := openLog(path, now(), func(at int64, kind byte, id string, size int) {
		switch kind {
		case recordLead:
			o.hold(id, at, size)
		case recordGone:
			o.release(id)
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
	if o.order.Len() > 0 {
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
	if err := o.ask(ctx, &job{item: it, done: make(chan error, 1)}); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Remove forgets items that have been handed over. Should the power fail right
// after, they may be back.
func (o *Outbox) Remove(ctx context.Context, ids ...string) error {
	if err := o.ask(ctx, &job{remove: ids, done: make(chan error, 1)}); err != nil {
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
	for e := o.order.Front(); e != nil && len(items) < most; e = e.Next() {
		w := e.Value.(*waiting)
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
	return o.order.Len()
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
	err := o.log.f.Close()
	o.log.f = nil
	return err
}

func (o *Outbox) ask(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !o.queue.push(j) {
		return ErrClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outbox) hold(id string, at int64, size int) {
	if e, ok := o.waiting[id]; ok {
		w := e.Value.(*waiting)
		o.live += int64(size - w.size)
		w.at, w.size = at, size
		return
	}
	o.waiting[id] = o.order.PushBack(&waiting{id: id, at: at, size: size})
	o.live += int64(size)
}

func (o *Outbox) release(id string) {
	e, ok := o.waiting[id]
	if !ok {
		return
	}
	o.live -= int64(o.order.Remove(e).(*waiting).size)
	delete(o.waiting, id)
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
