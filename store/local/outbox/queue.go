package outbox

import "sync"

// job is a record for an outbox's writer to add, ids to remove, or a task of its
// own.
type job struct {
	id     string
	record []byte // encoded by whoever adds the item, so that the writer only copies it
	hash   uint32 // of the id
	remove []string
	task   func() error
	done   chan error // buffered: the writer never waits to answer
}

// reset forgets what the job was for. The memory of a small record is used again.
func (j *job) reset() {
	if cap(j.record) > recordReuse {
		j.record = nil
	}
	j.id, j.record, j.remove, j.task = "", j.record[:0], nil, nil
}

// recordReuse bounds the bytes of a job's record whose memory is used again.
const recordReuse = 4 << 10

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

// wait waits until there are jobs. It returns false once the queue is closed and
// empty.
func (q *queue) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 {
		if q.closed {
			return false
		}
		q.nonEmpty.Wait()
	}
	return true
}

// take moves the first jobs, up to about size bytes of records, to the end of to.
func (q *queue) take(to []*job, size int) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.jobs) && size > 0 {
		size -= len(q.jobs[n].record)
		n++
	}
	to = append(to, q.jobs[:n]...)
	left := copy(q.jobs, q.jobs[n:])
	clear(q.jobs[left:])
	q.jobs = q.jobs[:left]
	return to
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.nonEmpty.Broadcast()
}
