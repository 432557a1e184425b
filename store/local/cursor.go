package local

import (
	"fmt"
	"time"
)

// Cursor is how far the node has followed the origin.
type Cursor struct {
	// Seq is the last change taken in. 0: none yet.
	Seq int64
	// CompleteAt is when the node last knew that it had every change there was.
	// The zero time: never.
	CompleteAt time.Time
	// Epoch rises each time the origin could not tell all that had changed:
	// records of an earlier epoch are stale.
	Epoch int64
}

const cursorKey = "cursor"

// Cursor returns how far the node has followed the origin.
func (s *Store) Cursor() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor
}

// Follow moves the cursor on, once every change up to seq has been applied to
// the shelves. An earlier seq changes nothing, nor does the zero time. An
// earlier time does: the clock was put back, and a time that lies ahead would
// have records trusted for too long.
func (s *Store) Advance(seq int64, heard time.Time) error {
	return s.moveCursor(func(c *Cursor) {
		c.Seq = max(c.Seq, seq)
		if !heard.IsZero() {
			c.CompleteAt = heard
		}
	})
}

// Reset begins a new epoch at seq: changes have been missed that nobody can
// tell any more, so every record held is stale from here on. seq may be lower
// than before, at an origin that was put back.
func (s *Store) Reset(seq int64) error {
	err := s.moveCursor(func(c *Cursor) {
		c.Seq = seq
		c.Epoch++
	})
	if err != nil {
		return err
	}
	epoch := s.Cursor().Epoch
	s.Keys.distrust(epoch, seq)
	s.Views.distrust(epoch, seq)
	s.Negatives.Clear()
	return nil
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
		return fmt.Errorf("keep cursor: %w", err)
	}
	s.cursor = next
	return nil
}

// The cursor's value: i64 seq, heard (microseconds since the Unix epoch, 0
// never), epoch.
func encodeCursor(c Cursor) string {
	b := putInt(newValue(3*8), c.Seq)
	heard := int64(0)
	if !c.CompleteAt.IsZero() {
		heard = c.CompleteAt.UnixMicro()
	}
	return seal(cursorKey, putInt(putInt(b, heard), c.Epoch))
}

func decodeCursor(v string) Cursor {
	f := openValue(v)
	c := Cursor{Seq: f.int()}
	if heard := f.int(); heard != 0 {
		c.CompleteAt = time.UnixMicro(heard).UTC()
	}
	c.Epoch = f.int()
	return c
}
