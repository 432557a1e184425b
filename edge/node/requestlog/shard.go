package requestlog

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"partneredge/edge/wire"
)

const idSize = 30 // of req_ and 26 characters

// record is a wire.AnsweredRequest as it is kept, without pointers, so that the garbage
// collector has nothing to follow. Texts are numbers of shard.texts.
type record struct {
	at                          int64 // microseconds since the Unix epoch
	took                        uint32
	status                      uint16
	method, route, code, reason uint16
	id                          [idSize]byte
}

// ring holds the newest records of one key. It grows up to a bound, and then the
// next record replaces the oldest.
type ring struct {
	keyID, accountID string
	records          []record
	next             int // where the next record goes once the ring is full
	bound            int
}

// shard holds the rings of some keys, the one that was used last first.
type shard struct {
	mu      sync.Mutex
	rings   map[string]*list.Element // of *ring, by key id
	used    *list.List
	slots   int // of all rings
	texts   []string
	numbers map[string]uint16 // of texts
}

// Bounds of the texts of a shard: how many, and the bytes of one.
const (
	textsMost = 512
	textMost  = 128
)

func (s *shard) init() {
	s.rings, s.used = make(map[string]*list.Element), list.New()
	s.texts, s.numbers = []string{""}, map[string]uint16{"": 0}
}

func (s *shard) add(e *wire.AnsweredRequest, bound int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.ringOf(e, bound)
	at := s.slot(r)
	*at = record{
		at: e.At.UnixMicro(), took: uint32(min(e.TookUS, 1<<32-1)), status: uint16(e.Status),
		method: s.number(e.Method), route: s.number(e.Route), code: s.number(e.Code), reason: s.number(e.Reason),
	}
	copy(at.id[:], e.ID)
}

// ringOf returns the ring of the request's key as the one used last.
func (s *shard) ringOf(e *wire.AnsweredRequest, bound int) *ring {
	if at := s.rings[e.KeyID]; at != nil {
		s.used.MoveToFront(at)
		return at.Value.(*ring)
	}
	r := &ring{keyID: strings.Clone(e.KeyID), accountID: strings.Clone(e.AccountID), bound: bound}
	s.rings[r.keyID] = s.used.PushFront(r)
	return r
}

// slot returns the place for the next record of a ring, for which rings that were used
// the longest ago may have to go.
func (s *shard) slot(r *ring) *record {
	if len(r.records) < r.bound {
		if len(r.records) == cap(r.records) {
			s.grow(r)
		}
		r.records = r.records[:len(r.records)+1]
		return &r.records[len(r.records)-1]
	}
	at := &r.records[r.next]
	r.next = (r.next + 1) % r.bound
	return at
}

func (s *shard) grow(r *ring) {
	size := min(max(4, 4*cap(r.records)), r.bound)
	s.slots += size - cap(r.records)
	grown := make([]record, len(r.records), size)
	copy(grown, r.records)
	r.records = grown
	for s.slots > PerShard {
		oldest := s.used.Remove(s.used.Back()).(*ring) // never r, which was used last and fits
		delete(s.rings, oldest.keyID)
		s.slots -= cap(oldest.records)
	}
}

// number returns the number of a text, that of "" for one that is too long or too many.
func (s *shard) number(text string) uint16 {
	if n, known := s.numbers[text]; known {
		return n
	}
	if len(s.texts) == textsMost || len(text) > textMost {
		return 0
	}
	text = strings.Clone(text)
	n := uint16(len(s.texts))
	s.texts, s.numbers[text] = append(s.texts, text), n
	return n
}

func (s *shard) find(id string) (wire.AnsweredRequest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.used.Front(); at != nil; at = at.Next() {
		r := at.Value.(*ring)
		for i := range r.records {
			if string(r.records[i].id[:]) == id {
				return s.entry(r, &r.records[i]), true
			}
		}
	}
	return wire.AnsweredRequest{}, false
}

func (s *shard) list(all []wire.AnsweredRequest, keyID, accountID string, keep func(*wire.AnsweredRequest) bool) []wire.AnsweredRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.used.Front(); at != nil; at = at.Next() {
		r := at.Value.(*ring)
		if keyID != "" && r.keyID != keyID || accountID != "" && r.accountID != accountID {
			continue
		}
		for i := range r.records {
			if e := s.entry(r, &r.records[i]); keep(&e) {
				all = append(all, e)
			}
		}
	}
	return all
}

func (s *shard) entry(r *ring, at *record) wire.AnsweredRequest {
	return wire.AnsweredRequest{
		ID: string(at.id[:]), At: time.UnixMicro(at.at).UTC(), TookUS: int64(at.took),
		KeyID: r.keyID, AccountID: r.accountID, Method: s.texts[at.method], Route: s.texts[at.route],
		Status: int(at.status), Code: s.texts[at.code], Reason: s.texts[at.reason],
	}
}
