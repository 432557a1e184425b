package local

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Idempotency remembers for a day what was first done under a name, so that the same
// request, sent again, is not done again. It is bounded: beyond the bound the
// oldest is forgotten.
type Idempotency struct {
	file *file
	now  func() time.Time
	most int

	mu    sync.Mutex
	busy  map[string]chan struct{} // closed when the name is free again
	order []firstSeen              // the oldest first
}

// IdempotencyRecord is what was done first.
type IdempotencyRecord struct {
	Digest string // of what was asked
	ID     string // of what was made
}

type firstSeen struct {
	name string
	at   int64 // microseconds since the Unix epoch
}

const (
	firstPrefix = "f:"
	firstFor    = 24 * time.Hour
)

// IdempotencyName is the name of what a key of the partner's calls by an idempotency
// key. It tells nothing of either.
func IdempotencyName(keyID, idempotencyKey string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(keyID)))
	b = append(append(b, keyID...), idempotencyKey...)
	sum := sha256.Sum256(b)
	return string(sum[:16])
}

func newIdempotency(f *file, most int, now func() time.Time) (*Idempotency, error) {
	s := &Idempotency{file: f, now: now, most: most, busy: map[string]chan struct{}{}}
	err := f.each(firstPrefix, "", func(name, value string) bool {
		fields := openValue(value)
		s.order = append(s.order, firstSeen{name, fields.int()})
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read first requests: %w", err)
	}
	slices.SortFunc(s.order, func(a, b firstSeen) int { return int(min(max(a.at-b.at, -1), 1)) })
	return s, nil
}

// Do calls make unless it was done under this name within a day, and remembers
// what it made. repeated tells that first is of an earlier call. Of calls with
// the same name at the same time one goes first and the others wait for it, or
// until ctx ends. When make fails, nothing is remembered.
func (s *Idempotency) Do(ctx context.Context, name string, make func() (IdempotencyRecord, error)) (first IdempotencyRecord, repeated bool, err error) {
	free, err := s.hold(ctx, name)
	if err != nil {
		return IdempotencyRecord{}, false, err
	}
	defer free()
	value, err := s.file.get(firstPrefix + name)
	if err != nil {
		return IdempotencyRecord{}, false, fmt.Errorf("look up first request: %w", err)
	}
	now := s.now().UnixMicro()
	f := openValue(value)
	at := f.int()
	first = IdempotencyRecord{Digest: f.text(), ID: f.text()}
	if !f.bad && within(at, now) {
		return first, true, nil
	}
	if first, err = make(); err != nil {
		return IdempotencyRecord{}, false, err
	}
	v := putText(putText(putInt(newValue(64), now), first.Digest), first.ID)
	if err := s.file.set(firstPrefix+name, seal(firstPrefix+name, v)); err != nil {
		return IdempotencyRecord{}, false, fmt.Errorf("remember first request: %w", err)
	}
	s.mu.Lock()
	s.order = append(s.order, firstSeen{name, now})
	due := len(s.order) > s.most
	s.mu.Unlock()
	if due {
		err = s.sweep()
	}
	return first, false, err
}

// within tells whether at is less than a day from now, either way: the clock
// may have been put back.
func within(at, now int64) bool {
	return max(now-at, at-now) < firstFor.Microseconds()
}

// hold makes the name the caller's until it calls free.
func (s *Idempotency) hold(ctx context.Context, name string) (free func(), err error) {
	for {
		s.mu.Lock()
		busy, taken := s.busy[name]
		if !taken {
			mine := make(chan struct{})
			s.busy[name] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, name)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for first request: %w", ctx.Err())
		}
	}
}

// sweep forgets what is older than a day, and the oldest beyond the bound, down
// to a sixteenth below it.
func (s *Idempotency) sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	n := 0
	if len(s.order) > s.most {
		n = len(s.order) - s.most + s.most/16
	}
	for n < len(s.order) && !within(s.order[n].at, now) {
		n++
	}
	gone := s.order[:n]
	for len(gone) > 0 {
		some := gone[:min(len(gone), sweepAtOnce)]
		err := s.file.update(func(c *changes) error {
			for _, one := range some {
				// It may have been done again since.
				value, err := c.get(firstPrefix + one.name)
				if f := openValue(value); err != nil || f.int() != one.at {
					continue
				}
				c.remove(firstPrefix + one.name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget first requests: %w", err)
		}
		gone = gone[len(some):]
	}
	s.order = slices.Delete(s.order, 0, n)
	return nil
}
