package host

import "sync"

// budget is the memory that all sandboxes of a runtime share.
type budget struct {
	mu      sync.Mutex
	left    int
	starved map[*pool]struct{} // pools that wait for memory
}

// reserve takes n bytes, if there are so many. A pool that gets none is told
// as soon as some are given back.
func (b *budget) reserve(n int, p *pool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		if p != nil {
			if b.starved == nil {
				b.starved = map[*pool]struct{}{}
			}
			b.starved[p] = struct{}{}
		}
		return false
	}
	b.left -= n
	return true
}

// release gives n bytes back.
func (b *budget) release(n int) {
	b.mu.Lock()
	b.left += n
	starved := b.starved
	b.starved = nil
	b.mu.Unlock()
	for p := range starved {
		p.wake()
	}
}
