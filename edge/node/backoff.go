package node

import (
	"math/rand/v2"
	"time"
)

// backoff is how long to wait after failures in a row: each time about twice as
// long, anywhere between half and all of it, so that nodes which failed
// together do not come back together.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) duration() time.Duration {
	if b.next == 0 {
		b.next = b.first
	}
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	return d
}
