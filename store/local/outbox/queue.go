package outbox

import (
	"errors"
	"sync"
	"time"
)

// job is a record for an outbox's writer to add, ids to remove, or a task of its
// own.
type job struct {
	id     string
	record []byte // encoded by whoever adds the item, so that the writer only copies it
	hash   uint32 // of the id
	remove []string
	task   func() error
	done   chan error // for errSlow and the answer; buffered: nobody waits to send
	slow   bool       // errSlow has been sent; guarded by the queue
}

// errSlow comes before the answer of a job that waits for long: from then on its client
// watches its context as well.
var errSlow = errors.New("slow")

// patience is the time after which clients that wait begin to watch their contexts. A
// quick disk has answered long before, and to wait for either of two costs more.
const patience = 20 * time.Millisecond

// reset forgets what the job was for. The memory of a small record is used again.
func (j *job) reset() {
	if cap(j.record) > recordReuse {
		j.record = nil
	}
	j.id, j.record, j.remove, j.task, j.slow = "", j.record[:0], nil, nil, false
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
	taken    []*job // that the writer has taken, and not settled
	closed   bool
	slow     *time.Timer // of warn, set while the writer has jobs
}

func newQueue() *queue {
	q := &queue{}
	q.nonEmpty.L = &q.mu
	q.slow = time.AfterFunc(patience, q.warn)
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

// warn makes the callers that wait watch their contexts.
func (q *queue) warn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, waiting := range [][]*job{q.taken, q.jobs} {
		for _, j := range waiting {
			if !j.slow {
				j.slow = true
				j.done <- errSlow
			}
		}
	}
	if len(q.taken)+len(q.jobs) > 0 {
		q.slow.Reset(patience) // for those who come after this
	}
}

// wait waits until there are jobs. It returns false once the queue is closed and
// empty.
func (q *queue) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slow.Stop()
	for len(q.jobs) == 0 {
		if q.closed {
			return false
		}
		q.nonEmpty.Wait()
	}
	q.slow.Reset(patience)
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
	q.taken = append(q.taken, q.jobs[:n]...)
	left := copy(q.jobs, q.jobs[n:])
	clear(q.jobs[left:])
	q.jobs = q.jobs[:left]
	return to
}

// settle notes that, of the jobs that were taken, only left have no answer yet. It is called
// before the others are answered, since a client uses its job again.
func (q *queue) settle(left ...[]*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.taken)
	q.taken = q.taken[:0]
	for _, jobs := range left {
		q.taken = append(q.taken, jobs...)
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.nonEmpty.Broadcast()
}
