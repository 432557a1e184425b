package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Idempotency remembers for a day what was made under an idempotency key, so that
// a request which is sent again makes nothing again. Beyond a number of keys the
// oldest is forgotten.
type Idempotency struct {
	file    *file
	now     func() time.Time
	maxKeys int

	mu    sync.Mutex
	busy  map[string]chan struct{} // closed when the name is free again
	order []idempotencyTime        // the oldest first
}

// IdempotencyRecord names the record that was made under an idempotency key.
type IdempotencyRecord struct {
	Digest string // of the request
	ID     string // of what was made
}

type idempotencyTime struct {
	name  string
	at    int64 // microseconds since the Unix epoch
	owner int64 // a hash; 0: of a record of an earlier version, which has none
}

const (
	idempotencyPrefix = "f:"
	idempotencyTTL    = 24 * time.Hour
)

// IdempotencyName returns the name of the record for an idempotency key that was
// sent with an API key. It is a hash: neither key can be read from it.
func IdempotencyName(keyID, idempotencyKey string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(keyID)))
	b = append(append(b, keyID...), idempotencyKey...)
	sum := sha256.Sum256(b)
	return string(sum[:16])
}

// maxDigest bounds the digest that is remembered with an idempotency key, in bytes.
const maxDigest = 64

// ShortDigest returns a digest as it is remembered: in place of one that is longer than
// 64 bytes its hash, for a module may give a whole request.
func ShortDigest(digest string) string {
	if len(digest) <= maxDigest {
		return digest
	}
	sum := sha256.Sum256([]byte(digest))
	return string(sum[:])
}

func newIdempotency(f *file, maxKeys int, now func() time.Time) (*Idempotency, error) {
	s := &Idempotency{file: f, now: now, maxKeys: maxKeys, busy: map[string]chan struct{}{}}
	err := f.each(idempotencyPrefix, "", func(name, value string) bool {
		fields := openValue(value)
		at := fields.int()
		fields.text()
		fields.text()
		s.order = append(s.order, idempotencyTime{name, at, fields.int()})
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read idempotency records: %w", err)
	}
	slices.SortFunc(s.order, func(a, b idempotencyTime) int { return cmp.Compare(a.at, b.at) })
	return s, nil
}

// Do returns the record of this name if it was made within a day. Else it calls
// make, and stores and returns the record that make returns. When make fails,
// nothing is stored. Of calls with one name at the same time one goes first, and
// the others wait for it, or until ctx ends. The record counts as one of the owner's.
func (s *Idempotency) Do(ctx context.Context, name, owner string, make func() (IdempotencyRecord, error)) (rec IdempotencyRecord, repeated bool, err error) {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return IdempotencyRecord{}, false, err
	}
	defer unlock()
	key := idempotencyPrefix + name
	value, err := s.file.get(key)
	if err != nil {
		return IdempotencyRecord{}, false, fmt.Errorf("read idempotency record: %w", err)
	}
	now := s.now().UnixMicro()
	f := openValue(value)
	at := f.int()
	rec = IdempotencyRecord{Digest: f.text(), ID: f.text()}
	if !f.bad && withinTTL(at, now) {
		return rec, true, nil
	}
	if rec, err = make(); err != nil {
		return IdempotencyRecord{}, false, err
	}
	sum := sha256.Sum256([]byte(owner))
	entry := idempotencyTime{name, now, int64(binary.LittleEndian.Uint64(sum[:]))}
	// i64 time; text digest, id; i64 owner, which earlier versions neither write nor read.
	v := putInt(putText(putText(putInt(newValue(72), now), rec.Digest), rec.ID), entry.owner)
	if err := s.file.set(key, seal(key, v)); err != nil {
		return IdempotencyRecord{}, false, fmt.Errorf("store idempotency record: %w", err)
	}
	s.mu.Lock()
	s.order = append(s.order, entry)
	full := len(s.order) > s.maxKeys
	s.mu.Unlock()
	if full {
		err = s.sweep()
	}
	return rec, false, err
}

// withinTTL reports whether at is less than a day from now, in either direction:
// the clock may have been put back.
func withinTTL(at, now int64) bool {
	return max(now-at, at-now) < idempotencyTTL.Microseconds()
}

// lock locks a name, or waits for it until ctx ends.
func (s *Idempotency) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		busy, locked := s.busy[name]
		if !locked {
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
			return nil, fmt.Errorf("wait for a request with the same idempotency key: %w", ctx.Err())
		}
	}
}

// sweep removes records that are older than a day. If more than maxKeys are left, it evicts
// some, down to a sixteenth below that.
func (s *Idempotency) sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UnixMicro()
	n := 0
	for n < len(s.order) && !withinTTL(s.order[n].at, now) {
		n++
	}
	gone, kept := s.order[:n:n], s.order[n:]
	if len(kept) > s.maxKeys {
		var evicted []idempotencyTime
		kept, evicted = evict(kept, s.maxKeys-s.maxKeys/16)
		gone = append(gone, evicted...)
	}
	for len(gone) > 0 {
		some := gone[:min(len(gone), sweepAtOnce)]
		err := s.file.update(func(c *changes) error {
			for _, one := range some {
				// It may have been stored again since.
				value, err := c.get(idempotencyPrefix + one.name)
				if f := openValue(value); err != nil || f.int() != one.at {
					continue
				}
				c.remove(idempotencyPrefix + one.name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove idempotency records: %w", err)
		}
		gone = gone[len(some):]
	}
	n = copy(s.order, kept)
	clear(s.order[n:])
	s.order = s.order[:n]
	return nil
}

// evict returns the records of an order that are kept when most are, fewer than there are,
// and the others. Again and again the owner that has the most loses its oldest. So who has
// no more than an even part of most loses nothing.
func evict(order []idempotencyTime, most int) (kept, gone []idempotencyTime) {
	has := map[int64]int{}
	with := make([]int, len(order)+1) // owners that have at least as many records as the index
	for _, one := range order {
		has[one.owner]++
		with[has[one.owner]]++
	}
	level, room := 0, most // every owner keeps its newest level records, and some keep one more
	for with[level+1] <= room {
		level++
		room -= with[level]
	}
	over := with[level+1] - room
	for _, one := range order {
		has[one.owner]--
		switch newer := has[one.owner]; {
		case newer > level:
			gone = append(gone, one)
		case newer == level && over > 0:
			over--
			gone = append(gone, one)
		default:
			kept = append(kept, one)
		}
	}
	return kept, gone
}
