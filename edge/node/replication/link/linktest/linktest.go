// Package linktest has links to an origin for tests of what nodes say over them.
package linktest

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/host"
)

// Link is a link that is up, whose questions a test answers.
type Link struct {
	*link.Link
	Answer func(ctx context.Context, req, reply wire.Message) error
}

// Up reports that there is a connection.
func (l Link) Up() bool { return true }

// Ask has the test answer.
func (l Link) Ask(ctx context.Context, _ string, req, reply wire.Message) error {
	return l.Answer(ctx, req, reply)
}

// Slow takes a time for each record that a message holds: the next of a few times that
// differ, none longer than the timeout.
type Slow struct {
	each  []time.Duration
	times int
}

// DrawSlow draws a Slow for messages with a timeout.
func DrawSlow(t *rapid.T, timeout time.Duration) *Slow {
	each := rapid.SliceOfN(rapid.Int64Range(1, int64(timeout)-1), 1, 5).Draw(t, "time for a record")
	l := new(Slow)
	for _, d := range each {
		l.each = append(l.each, time.Duration(d))
	}
	return l
}

// Carry returns once a message with n records is carried, or fails when ctx ends first.
func (l *Slow) Carry(ctx context.Context, n int) error {
	each := l.each[l.times%len(l.each)]
	l.times++
	select {
	case <-time.After(time.Duration(n) * each):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
	}
}
