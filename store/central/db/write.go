package db

import (
	"context"
	"errors"
	"fmt"

	"partneredge/store"
)

// Batch gathers what the jobs of one shared transaction leave to be written
// together. Its methods are called by the writer's goroutine alone.
type Batch interface {
	// Lock locks the rows that the jobs name before the first of them runs. Names
	// come sorted and without repetitions, so that no two processes wait for each
	// other.
	Lock(ctx context.Context, names []string) error
	// Mark returns a function that forgets what has been gathered since: a job
	// failed.
	Mark() (reset func())
	// Flush writes what was gathered, after the last job.
	Flush(ctx context.Context) error
	// Committed is called after the commit, and before any job's caller is answered.
	Committed()
}

// Func is the function of a write. It may run more than once, but only the last
// run counts, so what it leaves for its caller it must assign, not add to.
type Func func(context.Context, *Tx) error

var errClosed = fmt.Errorf("%w: the database is closed", store.ErrUnavailable)

// Write runs fn in a transaction that it shares with other callers' writes, and
// returns once it is committed. lock names a row for Batch.Lock; "" none. Once
// the writer has taken fn up, Write waits for the outcome even when ctx ends: it
// is then known, not guessed.
func (d *DB) Write(ctx context.Context, lock string, fn Func) error {
	j := &job{lock: lock, fn: fn, done: make(chan struct{})}
	if err := d.submit(ctx, j); err != nil {
		return err
	}
	<-j.done
	return j.err
}

// submit waits until the writer takes a job up.
func (d *DB) submit(ctx context.Context, j *job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.jobs <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stop:
		return errClosed
	}
}

// WriteAlone runs fn in a transaction of its own where the database lets several
// write at once, and as Write does where it does not. fn must not use Tx.Batch.
func (d *DB) WriteAlone(ctx context.Context, fn Func) error {
	if !d.postgres {
		return d.Write(ctx, "", fn)
	}
	for try := 1; ; try++ {
		err := d.writeAloneOnce(ctx, fn)
		if !retryable(err) || try == retries {
			if ctx.Err() == nil { // else it says nothing of the database
				d.noteWrite(err)
			}
			return err
		}
	}
}

// EmptyLog moves the log of SQLite into the file and cuts it to nothing: what was removed
// could be read there until other writes took its place. It is ErrUnavailable where somebody
// reads from the log, such as a backup. On PostgreSQL it does nothing.
func (d *DB) EmptyLog(ctx context.Context) error {
	if d.postgres {
		return nil
	}
	const op = "empty the log"
	done := make(chan error, 1)
	select {
	case d.emptying <- done:
		return Fail(op, <-done)
	case <-ctx.Done():
		return Fail(op, ctx.Err())
	case <-d.stop:
		return errClosed
	}
}

// Writable returns why the database takes no writes, though it may be read: its disk is
// full, say. It tries one after a write that was not taken, and else costs nothing. Unlike
// Write it ends with ctx, whatever comes of what it tried.
func (d *DB) Writable(ctx context.Context) error {
	if !d.failing.Load() {
		return nil
	}
	const op = "write"
	j := &job{done: make(chan struct{}), fn: func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, `UPDATE schema_migrations SET number = number WHERE number = 1`)
		return err
	}}
	if err := d.submit(ctx, j); err != nil {
		return Fail(op, err)
	}
	select {
	case <-j.done:
		return Fail(op, j.err)
	case <-ctx.Done():
		return Fail(op, ctx.Err())
	}
}

// noteWrite notes for Writable how a write ended.
func (d *DB) noteWrite(err error) {
	if err == nil || errors.Is(kindOf(err), store.ErrUnavailable) {
		d.failing.Store(err != nil)
	}
}

// beginIndexed makes PostgreSQL look rows up by their indexes. Left to itself it
// plans for the small table that it saw first, reads all of it for each batch,
// and keeps to that while the table grows. Where it must read a table, the cost that it
// then counts would make it compile the statement each time.
const beginIndexed = beginLimited + `; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off`

// beginLimited makes PostgreSQL end a transaction that does nothing for too long, as when its
// machine has lost its power or was suspended: what it had locked would keep other origins
// waiting until the server's keepalives notice, which take two hours. It is less than
// batchTime, so that what waits for it does not fail.
const beginLimited = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '20s'`

func (d *DB) writeAloneOnce(ctx context.Context, fn Func) error {
	select {
	case <-d.stop:
		return errClosed
	default:
	}
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	t := &Tx{dialect: d.dialect, db: d, conn: conn}
	if err := t.control(ctx, beginIndexed); err != nil {
		return err
	}
	if err := fn(ctx, t); err != nil {
		// A connection that cannot roll back is dropped by the pool.
		_ = t.rollback(ctx, conn)
		return err
	}
	return t.control(ctx, "COMMIT")
}
