package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// pool holds a module's sandboxes. The one that was used last is used next, for its
// memory is in the processor's cache.
type pool struct {
	module *Module

	mu      sync.Mutex
	idle    []*sandbox
	unused  int          // how many of idle, from the first on, no call used since trim
	count   int          // all there are, those being made included
	making  int          // how many of count are being made in the background
	waiting []chan offer // calls that wait, the longest first
	closed  bool
	closing context.Context // ends with close
	end     context.CancelFunc
	pinned  bool           // the memory of one sandbox stays reserved until leave: see ceiling.pin
	held    int            // bytes that are reserved; ceiling's, under its lock
	empty   sync.Cond      // count reached 0; set up by close
	makers  sync.WaitGroup // goroutines that make sandboxes
}

// offer is what a call that waits is sent: a sandbox, or why there is none.
type offer struct {
	sandbox *sandbox
	err     *Error
}

// get returns an idle sandbox, or makes one, for which others' idle ones make room, or waits
// for one.
func (p *pool) get(ctx context.Context) (*sandbox, *Error) {
	for waits := false; ; {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, p.module.fault(Closed, ErrClosed)
		}
		if n := len(p.idle); n > 0 {
			s := p.idle[n-1]
			p.idle[n-1] = nil
			p.idle = p.idle[:n-1]
			p.unused = min(p.unused, n-1)
			p.mu.Unlock()
			return s, nil
		}
		more := p.mayHaveMore()
		if more && p.reserve(waits) {
			p.count++
			p.mu.Unlock()
			s, err := p.clone(ctx)
			if err != nil {
				p.uncount(p.module.image.size())
			}
			return s, err
		}
		if more && !waits {
			p.mu.Unlock()
			waits = !p.module.runtime.shrink(p)
			continue
		}
		ch := make(chan offer, 1)
		p.waiting = append(p.waiting, ch)
		p.mu.Unlock()
		p.wake() // others' sandboxes may have become idle before they knew that this call waits
		return p.wait(ctx, ch)
	}
}

// mayHaveMore reports whether the module may have one more sandbox, if there is memory. p.mu is
// held.
func (p *pool) mayHaveMore() bool {
	return p.count < p.module.limits.Sandboxes && (p.count == 0 || p.module.runtime.ceiling.allows(p, p.module.image.size()))
}

// reserve reserves the memory of one more sandbox, if there is so much. If waits is set, p is
// woken when it was refused and there may be some. p.mu is held.
func (p *pool) reserve(waits bool) bool {
	c, size := &p.module.runtime.ceiling, p.module.image.size()
	if p.count == 0 && p.pinned {
		return true
	}
	if !c.reserve(p, size, waits) {
		return false
	}
	if !p.pinned {
		p.pinned = c.pin(size)
	}
	return true
}

// open readies the pool for calls, and reserves the memory of the module's first sandbox, for which
// others' idle ones make room. If there is not so much, the first sandbox that is made gets it.
func (p *pool) open() {
	p.closing, p.end = context.WithCancel(context.Background())
	c, size := &p.module.runtime.ceiling, p.module.image.size()
	c.countModules(1)
	if !c.pin(size) {
		return
	}
	for p.pinned = c.reserve(p, size, false); !p.pinned; p.pinned = c.reserve(p, size, false) {
		if !p.module.runtime.shrink(p) {
			c.unpin(size)
			return
		}
	}
}

// leave unreserves what open reserved, once the pool is closed.
func (p *pool) leave() {
	c, size := &p.module.runtime.ceiling, p.module.image.size()
	c.countModules(-1)
	if p.pinned {
		c.unpin(size)
		c.unreserve(p, size)
	}
}

// wait waits for a sandbox from ch.
func (p *pool) wait(ctx context.Context, ch chan offer) (*sandbox, *Error) {
	timer := time.NewTimer(p.module.limits.Wait)
	defer timer.Stop()
	var err *Error
	select {
	case o := <-ch:
		return o.sandbox, o.err
	case <-timer.C:
		err = p.module.fault(Busy, ErrBusy)
	case <-ctx.Done():
		err = p.gaveUp(ctx.Err())
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, ch)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // one was sent just now
		if o := <-ch; o.sandbox != nil {
			return o.sandbox, nil
		}
	}
	return nil, err
}

// gaveUp returns the error of a call whose context ended before it had a sandbox.
func (p *pool) gaveUp(err error) *Error {
	if reason := contextReason(err); reason != WallDeadline {
		return p.module.fault(reason, err)
	}
	return p.module.fault(Busy, ErrBusy)
}

// clone makes a sandbox that is counted already. If it cannot be made, the caller takes it
// from the count. One that is made by repeating the warm-up is made within Limits.Wait, before ctx
// ends and before the pool is closed.
func (p *pool) clone(ctx context.Context) (*sandbox, *Error) {
	if p.module.image.state != 0 {
		within, cancel := context.WithTimeout(ctx, p.module.limits.Wait)
		defer cancel()
		defer context.AfterFunc(p.closing, cancel)()
		ctx = within
	} else {
		ctx = context.Background()
	}
	s, err := p.module.clone(ctx)
	switch {
	case err == nil:
		return s, nil
	case p.closing.Err() != nil:
		return nil, p.module.fault(Closed, ErrClosed)
	case ctx.Err() != nil, ReasonOf(err) == WallDeadline: // the guest may see that the time is over before ctx does
		return nil, p.gaveUp(cmp.Or(ctx.Err(), context.DeadlineExceeded))
	}
	return nil, p.module.fault(Failed, fmt.Errorf("make a sandbox: %w", err))
}

// put makes a sandbox available that is the image again: to calls that wait for one of this
// module, or else to those that wait for memory.
func (p *pool) put(s *sandbox) {
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		p.discard(s)
		return
	case len(p.waiting) > 0:
		p.answer(offer{sandbox: s})
	default:
		p.idle = append(p.idle, s)
		p.mu.Unlock()
		p.module.runtime.ceiling.wake()
		return
	}
	p.mu.Unlock()
}

// answer ends the longest wait. p.mu is held, and a call waits.
func (p *pool) answer(o offer) {
	p.waiting[0] <- o
	p.waiting = slices.Delete(p.waiting, 0, 1)
}

// refuse ends the longest wait with why no sandbox could be made, so that there is a try for
// each call at most. It is false if none waits.
func (p *pool) refuse(err *Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return false
	}
	p.answer(offer{err: err})
	return true
}

// discard frees a sandbox.
func (p *pool) discard(s *sandbox) { p.uncount(s.close()) }

// uncount forgets a sandbox of size bytes. What is reserved for the module's first stays so.
func (p *pool) uncount(size int) {
	p.mu.Lock()
	p.count--
	if p.count == 0 && p.pinned {
		size -= p.module.image.size()
	}
	if p.closed && p.count == 0 {
		p.empty.Broadcast()
	}
	p.mu.Unlock()
	p.module.runtime.ceiling.unreserve(p, size)
	p.wake()
}

// wake makes a sandbox for each call that waits, as far as there may be more, and others' idle
// ones make room.
func (p *pool) wake() {
	for p.wants() {
		if !p.replace() && !p.module.runtime.shrink(p) {
			return
		}
	}
}

// wants reports whether more sandboxes are to be made for calls that wait.
func (p *pool) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && p.making < len(p.waiting) && p.mayHaveMore()
}

// replace makes one more sandbox in the background, if there may be one.
func (p *pool) replace() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.mayHaveMore() || !p.reserve(len(p.waiting) > 0) {
		return false
	}
	p.count++
	p.making++
	p.makers.Go(func() {
		s, err := p.clone(context.Background())
		p.mu.Lock()
		p.making--
		p.mu.Unlock()
		if err == nil {
			p.put(s)
			return
		}
		if !p.refuse(err) && err.Reason != Closed {
			p.module.report(err)
		}
		p.uncount(p.module.image.size())
	})
	return true
}

// spare returns how many idle sandboxes may give way to other modules: not the only one, if its
// memory is pinned. p.mu is held.
func (p *pool) spare() int {
	if p.pinned {
		return min(len(p.idle), max(p.count-1, 0))
	}
	return len(p.idle)
}

// spareBytes returns how many bytes of image may give way to other modules.
func (p *pool) spareBytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spare() * p.module.image.size()
}

// shrink frees an idle sandbox, if there is one to spare.
func (p *pool) shrink() bool {
	p.mu.Lock()
	if p.spare() == 0 {
		p.mu.Unlock()
		return false
	}
	s := p.idle[0] // unused for longest
	p.idle = slices.Delete(p.idle, 0, 1)
	p.unused = max(p.unused-1, 0)
	p.mu.Unlock()
	p.discard(s)
	return true
}

// trim frees the sandboxes that no call has used since it was called last, but not the
// module's only one.
func (p *pool) trim() {
	p.mu.Lock()
	n := max(min(p.unused, p.count-1), 0)
	unused := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.unused = len(p.idle)
	p.mu.Unlock()
	for _, s := range unused {
		p.discard(s)
	}
}

// close frees every sandbox, once no call uses it. It may be called twice.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.end()
	p.empty.L = &p.mu
	for _, ch := range p.waiting {
		ch <- offer{err: p.module.fault(Closed, ErrClosed)}
	}
	p.waiting = nil
	idle := p.idle
	p.idle, p.unused = nil, 0
	p.mu.Unlock()
	for _, s := range idle {
		p.discard(s)
	}
	p.makers.Wait()
	p.mu.Lock()
	for p.count > 0 {
		p.empty.Wait()
	}
	p.mu.Unlock()
}
