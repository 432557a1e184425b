// Package places bounds what is under way at a time, in all and of each one who brings
// it about, so that nobody takes all there is.
package places

import "sync"

// Places counts those that are taken. Its bounds are set before the first call of Take.
type Places[K comparable] struct {
	All  int // the most at a time; 0: any number
	Each int // of them, the most of one

	mu    sync.Mutex
	taken int
	of    map[K]int // none where it is 0
}

// Take takes a place for one; leave frees it, and is called once. It returns false if there
// is none.
func (p *Places[K]) Take(one K) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

func (p *Places[K]) leave(one K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[one]--; p.of[one] == 0 {
		delete(p.of, one)
	}
}
