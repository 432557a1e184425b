// Package backoff computes how long to wait between tries that keep failing:
// exponentially longer, with jitter, up to a maximum. It also pauses and ticks until a context ends.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is the state of one loop that tries again after failures. It is for
// one goroutine.
type Backoff struct {
	first, max, next time.Duration
}

// New returns a Backoff whose delays grow from first to max.
func New(first, max time.Duration) *Backoff {
	return &Backoff{first: first, max: max, next: first}
}

// Next returns how long to wait after one more failure. The delay is drawn
// between half of its bound and the bound, so that processes which failed
// together do not try again together. The bound doubles with each call.
func (b *Backoff) Next() time.Duration {
	bound := b.next
	b.next = min(2*b.next, b.max)
	return bound/2 + rand.N(bound/2+1)
}

// Reset makes the next delay as short as the first one.
func (b *Backoff) Reset() { b.next = b.first }

// Wait resets b when err is nil. Otherwise it waits for the next delay, or until
// ctx ends.
func (b *Backoff) Wait(ctx context.Context, err error) {
	if err == nil {
		b.Reset()
		return
	}
	_ = Pause(ctx, b.Next())
}

// Pause waits for a time, or until ctx ends, and returns the error of ctx if that has ended.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

// Every calls do at each tick, until ctx ends.
func Every(ctx context.Context, d time.Duration, do func()) {
	tick := time.Tick(d)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			do()
		}
	}
}
