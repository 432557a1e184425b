// Package places bounds what is under way at a time, in all and of each one who brings
// it about, so that nobody takes all there is.
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

	mu    sync.Mutex
	taken int
	of    map[K]int             // none where it is 0
	wait  map[K][]chan struct{} // of those that Await, the longest first
}

// Take takes a place for one; leave frees it, and is called once. It returns false if there
// is none.
func (p *Places[K]) Take(one K) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(one)
}

// take is Take. p.mu is held.
func (p *Places[K]) take(one K) (leave func(), ok bool) {
	if p.All > 0 && p.taken >= p.All || p.of[one] >= p.Each {
		return nil, false
	}
	if p.of == nil {
		p.of = make(map[K]int)
	}
	p.taken++
	p.of[one]++
	return func() { p.leave(one) }, true
}

// Await is Take, but waits for a place of one until ctx ends, behind those that wait already.
// Where there is none in all it returns false at once.
func (p *Places[K]) Await(ctx context.Context, one K) (leave func(), ok bool) {
	p.mu.Lock()
	if leave, ok = p.take(one); ok || p.of[one] < p.Each {
		p.mu.Unlock()
		return leave, ok
	}
	given := make(chan struct{})
	if p.wait == nil {
		p.wait = make(map[K][]chan struct{})
	}
	p.wait[one] = append(p.wait[one], given)
	p.mu.Unlock()
	select {
	case <-given:
		return func() { p.leave(one) }, true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.wait[one], given)
	if i < 0 { // it was given just now
		return func() { p.leave(one) }, true
	}
	p.forget(one, i)
	return nil, false
}

// forget takes the i-th of those that wait from them. p.mu is held.
func (p *Places[K]) forget(one K, i int) {
	if p.wait[one] = slices.Delete(p.wait[one], i, i+1); len(p.wait[one]) == 0 {
		delete(p.wait, one)
	}
}

// leave gives the place to the one that has waited for it longest, or else frees it.
func (p *Places[K]) leave(one K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting := p.wait[one]; len(waiting) > 0 {
		close(waiting[0])
		p.forget(one, 0)
		return
	}
	p.taken--
	if p.of[one]--; p.of[one] == 0 {
		delete(p.of, one)
	}
}
