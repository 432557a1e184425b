package replication

import (
	"context"
	"errors"
)

// portion decides how many records one message asks for or hands over, so that a link which
// carries one of them within the timeout carries all in the end: half as many after a message
// that was not answered in time, and twice as many after one that was.
type portion struct{ now, most int }

func newPortion(most int) portion { return portion{now: most, most: most} }

// failed takes in that a message with n records got no answer, and reports whether one with
// fewer may get one.
func (p *portion) failed(n int, err error) (fewer bool) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	p.now = max(1, n/2)
	return n > 1
}

// answered takes in that a message was answered.
func (p *portion) answered() { p.now = min(p.most, 2*p.now) }
