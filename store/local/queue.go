package local

import (
	"runtime"
	"sync"
)

// job of an outbox's writer: an item to add, or ids to remove.
type job struct {
	item   Item
	remove []string
	done   chan error // has room for the answer
}

// groupBytes is how much is written and synced in one go, about.
const groupBytes = 4 << 20

// queue of jobs, of which the writer takes as many at a time as there are.
type queue struct {
	mu     *sync.Mutex
	some   *sync.Cond
	jobs   []*job
	closed bool
}

func newQueue() queue {
	mu := new(sync.Mutex)
	return queue{mu: mu, some: sync.NewCond(mu)}
}

// push is false when the queue is closed.
func (q *queue) push(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.jobs = append(q.jobs, j)
	if len(q.jobs) == 1 {
		q.some.Signal()
	}
	return true
}

// take waits until there are jobs and returns those that came first. It is nil
// once the queue is closed and empty.
func (q *queue) take() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 {
		if q.closed {
			return nil
		}
		q.some.Wait()
	}
	// Those who were answered a moment ago have more: they get to queue up
	// first, else every other group is small, and costs as much.
	for seen, turns := 0, 0; seen < len(q.jobs) && turns < 8; turns++ {
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
	q.some.Broadcast()
}
