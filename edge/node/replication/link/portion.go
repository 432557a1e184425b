package link

import (
	"context"
	"errors"
)

// Portion decides how many records one message asks for or hands over, so that a link which
// carries one of them within the timeout carries all in the end: half as many after a message
// that was not answered in time, and twice as many after one that was.
type Portion struct {
	Now  int // most records in the next message
	most int
}

// NewPortion returns a Portion of most records, until a message fails.
func NewPortion(most int) Portion { return Portion{Now: most, most: most} }

// Failed takes in that a message with n records got no answer, and reports whether one with
// fewer may get one.
func (p *Portion) Failed(n int, err error) (fewer bool) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	p.Now = max(1, n/2)
	return n > 1
}

// Answered takes in that a message was answered.
func (p *Portion) Answered() { p.Now = min(p.most, 2*p.Now) }
