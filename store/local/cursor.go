package local

import (
	"fmt"
	"strings"
	"time"
)

// Cursor is the node's position in the origin's sequence of changes.
type Cursor struct {
	// Seq is the last change that was applied. 0: none yet.
	Seq int64
	// History is the one that Seq is a number of. "": unknown.
	History string
	// CompleteAt is when the node last had every change there was. The zero
	// time: never.
	CompleteAt time.Time
	// Epoch rises each time the origin could not tell all that had changed.
	// Records of an earlier epoch are stale.
	Epoch int64
	// OfferDue: the outbox has yet to offer again what was handed over.
	OfferDue bool
}

const cursorKey = "cursor"

// Cursor returns the node's position.
func (s *Store) Cursor() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor
}

// Advance moves the cursor once every change up to seq has been applied to
// the replicas. An earlier seq changes nothing, nor does the zero time. An
// earlier time does: the clock was put back, and by a time that lies ahead
// records would be trusted for too long.
func (s *Store) Advance(seq int64, completeAt time.Time) error {
	return s.moveCursor(func(c *Cursor) {
		c.Seq = max(c.Seq, seq)
		if !completeAt.IsZero() {
			c.CompleteAt = completeAt
		}
	})
}

// Follow notes that the origin's changes go on in another history, from where the
// cursor is.
func (s *Store) Follow(history string) error {
	return s.moveCursor(func(c *Cursor) { c.History = history })
}

// Reset begins a new epoch at seq of a history: the node has missed changes that the
// origin cannot tell it, so every record held is stale from then on. seq may be
// lower than before, if the origin was restored from a backup.
//
// offerDue is noted together with the cursor, until Offered.
func (s *Store) Reset(seq int64, history string, offerDue bool) error {
	epoch := s.Cursor().Epoch + 1
	s.Keys.invalidate(epoch, seq)
	s.Views.invalidate(epoch, seq)
	s.Negatives.Clear()
	return s.moveCursor(func(c *Cursor) {
		c.Seq, c.History, c.Epoch = seq, history, epoch
		c.OfferDue = c.OfferDue || offerDue
	})
}

// Offered notes that the outbox has offered again what was handed over.
func (s *Store) Offered() error {
	return s.moveCursor(func(c *Cursor) { c.OfferDue = false })
}

func (s *Store) moveCursor(move func(*Cursor)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.cursor
	move(&next)
	if next == s.cursor {
		return nil
	}
	if err := s.hot.set(cursorKey, encodeCursor(next)); err != nil {
		return fmt.Errorf("store cursor: %w", err)
	}
	s.cursor = next
	return nil
}

// encodeCursor writes the cursor's value: i64 seq, complete at (microseconds
// since the Unix epoch, 0 never), epoch; text history; i64 1 if an offer is due.
// Earlier versions neither write nor read the last one or two.
func encodeCursor(c Cursor) string {
	b := putInt(newValue(4*8+4+len(c.History)), c.Seq)
	at := int64(0)
	if !c.CompleteAt.IsZero() {
		at = c.CompleteAt.UnixMicro()
	}
	b = putText(putInt(putInt(b, at), c.Epoch), c.History)
	if c.OfferDue {
		b = putInt(b, 1)
	}
	return seal(cursorKey, b)
}

func decodeCursor(v string) Cursor {
	f := openValue(v)
	c := Cursor{Seq: f.int()}
	if at := f.int(); at != 0 {
		c.CompleteAt = time.UnixMicro(at).UTC()
	}
	c.Epoch = f.int()
	c.History = strings.Clone(f.text())
	c.OfferDue = f.int() != 0
	return c
}
