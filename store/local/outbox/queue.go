package outbox

import (
	"runtime"
	"sync"
)

// job is an item for an outbox's writer to add, ids to remove, or a task of its
// own.
type job struct {
	item   Item
	remove []string
	task   func() error
	done   chan error // buffered: the writer never waits to answer
}

// groupBytes is about how many bytes are written and synced at once.
const groupBytes = 4 << 20

// queue holds the jobs of an outbox, which the writer handles in groups.
type queue struct {
	mu       sync.Mutex
	nonEmpty sync.Cond
	jobs     []*job
	closed   bool
}

func newQueue() *queue {
	q := &queue{}
	q.nonEmpty.L = &q.mu
	return q
}

// push returns false when the queue is closed.
func (q *queue) push(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.jobs = append(q.jobs, j)
	if len(q.jobs) == 1 {
		q.nonEmpty.Signal()
	}
	return true
}

// next waits until there are jobs and returns the first of them. It returns nil
// once the queue is closed and empty.
func (q *queue) next() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 {
		if q.closed {
			return nil
		}
		q.nonEmpty.Wait()
	}
	// Clients that were answered a moment ago have more: yield until they have
	// queued it. Else every other group is small, and costs as much.
	for seen, yields := 0, 0; seen < len(q.jobs) && yields < 8; yields++ {
		seen = len(q.jobs)
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	n, size := 0, 0
	for n < len(q.jobs) && size < groupBytes {
		size += len(q.jobs[n].item.Body)
		n++
	}
	group := q.jobs[:n:n]
	q.jobs = q.jobs[n:]
	if len(q.jobs) == 0 {
		q.jobs = nil
	}
	return group
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.nonEmpty.Broadcast()
}
