// Package places limits how much is done at a time, in all and for each one who asks for it,
// so that nobody takes all there is.
package places

import (
	"context"
	"slices"
	"sync"
)

// Places counts those that are taken. Its bounds are set before the first call.
type Places[K comparable] struct {
	All  int // the most at a time; 0: any number
	Each int // of them, the most of one

	mu      sync.Mutex
	taken   int
	of      map[K]int    // none where it is 0
	waiting []*waiter[K] // the longest first; none that there is a place for
}

// waiter is one that waits for a place.
type waiter[K comparable] struct {
	one   K
	given chan struct{} // closed when it has one
}

// Take takes a place for one; leave frees it, and is called once. It returns false if there
// is none.
func (p *Places[K]) Take(one K) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.take(one) {
		return nil, false
	}
	return func() { p.leave(one) }, true
}

// Await is Take, but waits for a place until ctx ends, behind those that wait already.
func (p *Places[K]) Await(ctx context.Context, one K) (leave func(), ok bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	leave = func() { p.leave(one) }
	p.mu.Lock()
	if p.take(one) {
		p.mu.Unlock()
		return leave, true
	}
	w := &waiter[K]{one, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case <-w.given:
		return leave, true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 { // it was given one just now
		return leave, true
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return nil, false
}

// take counts a place for one, if there is one. p.mu is held.
func (p *Places[K]) take(one K) bool {
	if p.All > 0 && p.taken >= p.All || p.of[one] >= p.Each {
		return false
	}
	if p.of == nil {
		p.of = make(map[K]int)
	}
	p.taken++
	p.of[one]++
	return true
}

// leave frees a place, and gives it to the one that has waited longest of those that may have it.
func (p *Places[K]) leave(one K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[one]--; p.of[one] == 0 {
		delete(p.of, one)
	}
	if i := slices.IndexFunc(p.waiting, func(w *waiter[K]) bool { return p.take(w.one) }); i >= 0 {
		close(p.waiting[i].given)
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}
