package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"partneredge/store"
)

// Writes of many callers share transactions. The writer takes every job that
// waits, runs them one after the other, commits once, and only then answers each
// caller. So one fsync and one insert of what the jobs leave behind serve them
// all, and no caller is answered before its write is on disk.

// batchJobs is the most jobs that share a transaction.
const batchJobs = 256

// batchTime bounds a transaction on PostgreSQL, whose network may hang.
const batchTime = 30 * time.Second

// retries bounds the runs of a transaction that PostgreSQL ends because of
// others.
const retries = 3

// errSpoiled is the error of a transaction in which a job failed after it had
// written, so that it is no longer that of the other jobs.
var errSpoiled = errors.New("a job failed half done")

// job is a write that waits for the writer, or runs.
type job struct {
	lock string // "" none
	fn   Func
	err  error
	done chan struct{}
}

// writeLoop runs jobs until the DB is closed.
func (d *DB) writeLoop() {
	w := &writer{db: d}
	defer w.drop()
	for {
		select {
		case j := <-d.jobs:
			jobs := d.gather(j)
			w.run(jobs)
			for _, j := range jobs {
				close(j.done)
			}
			// Callers that were answered often write again at once. They run first, so that
			// they share the next transaction rather than wait for it.
			runtime.Gosched()
		case done := <-d.emptying:
			done <- w.emptyLog()
		case <-d.stop:
			return
		}
	}
}

// gather takes up the jobs that wait beside first.
func (d *DB) gather(first *job) []*job {
	jobs := []*job{first}
	for len(jobs) < batchJobs {
		select {
		case j := <-d.jobs:
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

// writer runs jobs on a connection, which it keeps as long as it works.
type writer struct {
	db    *DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // of conn; SQLite only, pgx has its own
}

// run leaves each job's outcome in it. Jobs hardly ever fail once they have
// begun to write, so at first they run without savepoints; when one does fail,
// all run again with them, and when the whole fails, every job runs alone, so
// that none can spoil it for the rest.
func (w *writer) run(jobs []*job) {
	committing, err := w.transaction(jobs, false)
	if errors.Is(err, errSpoiled) {
		committing, err = w.transaction(jobs, true)
	}
	w.db.noteWrite(err)
	switch {
	case err == nil:
		return
	case len(jobs) > 1 && !committing && !errors.Is(kindOf(err), store.ErrUnavailable):
		for _, j := range jobs {
			w.run([]*job{j})
		}
		return
	}
	for _, j := range jobs {
		j.err = err
	}
}

func (w *writer) transaction(jobs []*job, savepoints bool) (committing bool, err error) {
	for range retries {
		if committing, err = w.try(jobs, savepoints); !retryable(err) {
			break
		}
	}
	return committing, err
}

// try runs jobs in one transaction. committing reports that its commit was
// begun, after which an error leaves open whether it happened.
func (w *writer) try(jobs []*job, savepoints bool) (committing bool, err error) {
	ctx := context.Background() // of a caller's, its end would end the others' work
	if w.db.postgres {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, batchTime)
		defer cancel()
	}
	t, err := w.begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil && t.rollback(ctx, t.conn) != nil {
			w.drop()
		}
	}()
	if err = t.runJobs(ctx, jobs, savepoints); err != nil {
		return false, err
	}
	if err = t.Batch.Flush(ctx); err != nil {
		return false, err
	}
	if err = t.control(ctx, "COMMIT"); err == nil {
		t.Batch.Committed()
	}
	return true, err
}

// begin begins a transaction. A connection to PostgreSQL that has ended since the last
// one, because the server was started again, gives way to another: no write depends on it
// yet.
func (w *writer) begin(ctx context.Context) (t *Tx, err error) {
	for range retries {
		if err = w.connect(ctx); err != nil {
			return nil, err
		}
		if t, err = w.beginHere(ctx); err == nil || !w.db.postgres {
			break
		}
	}
	return t, err
}

// connect takes a connection, unless the writer has one.
func (w *writer) connect(ctx context.Context) error {
	if w.conn == nil {
		conn, err := w.db.write.Conn(ctx)
		if err != nil {
			return err
		}
		w.conn = conn
		if !w.db.postgres {
			w.stmts = make(map[string]*sql.Stmt)
		}
	}
	return nil
}

// beginHere begins a transaction on the connection, which it drops when that fails.
func (w *writer) beginHere(ctx context.Context) (*Tx, error) {
	begin := beginIndexed
	if !w.db.postgres {
		begin = "BEGIN IMMEDIATE"
	}
	t := &Tx{dialect: w.db.dialect, db: w.db, conn: w.conn, stmts: w.stmts}
	t.Batch = w.db.newBatch(t)
	if err := t.control(ctx, begin); err != nil {
		w.drop()
		return nil, err
	}
	return t, nil
}

// emptyLog is EmptyLog between two transactions. It waits for those who read from the log
// for a moment only, since writes wait for it.
func (w *writer) emptyLog() (err error) {
	ctx := context.Background()
	if err := w.connect(ctx); err != nil {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, `PRAGMA busy_timeout = 100`); err != nil {
		return err
	}
	defer func() {
		_, restored := w.conn.ExecContext(ctx, `PRAGMA busy_timeout = `+busyTimeout)
		err = errors.Join(err, restored)
	}()
	var busy, pages, moved int
	err = w.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved)
	if err == nil && busy != 0 {
		err = fmt.Errorf("%w: somebody reads from it", store.ErrUnavailable)
	}
	return err
}

// drop closes the writer's connection.
func (w *writer) drop() {
	for _, s := range w.stmts {
		_ = s.Close()
	}
	w.stmts = nil
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

func (t *Tx) runJobs(ctx context.Context, jobs []*job, savepoints bool) error {
	if err := t.lock(ctx, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		var err error
		switch {
		case savepoints:
			err = t.runSafely(ctx, j)
		case len(jobs) == 1:
			err = t.runJob(ctx, j)
		default:
			if refused := t.runJob(ctx, j); refused != nil && t.touched {
				err = errors.Join(errSpoiled, refused)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) lock(ctx context.Context, jobs []*job) error {
	var names []string
	for _, j := range jobs {
		if j.lock != "" {
			names = append(names, j.lock)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return t.Batch.Lock(ctx, slices.Compact(names))
}

// runJob runs one job, and leaves the outcome in it in place of an earlier run's. When it
// fails, t.touched reports whether the transaction is no longer as it was before.
func (t *Tx) runJob(ctx context.Context, j *job) error {
	t.touched = false
	reset := t.Batch.Mark()
	err := j.fn(ctx, t)
	if err != nil {
		reset()
		// PostgreSQL ends a transaction at the first error of any statement, and
		// answers its COMMIT with a rollback, not with an error.
		t.touched = t.touched || !refusal(err)
	}
	j.err = err
	return err
}

// runSafely runs one job in a savepoint. Its own failure is undone and left in it
// alone; the error returned is one of the whole transaction.
func (t *Tx) runSafely(ctx context.Context, j *job) error {
	if err := t.control(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	if refused := t.runJob(ctx, j); refused != nil {
		if retryable(refused) {
			return refused
		}
		// This fails when the database has undone the whole transaction already,
		// as SQLite does on a full disk.
		if err := t.control(ctx, "ROLLBACK TO SAVEPOINT job"); err != nil {
			return errors.Join(refused, err)
		}
	}
	return t.control(ctx, "RELEASE SAVEPOINT job")
}
