package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"partneredge/store"
)

// Writes of many callers share transactions. A write is a function that runs
// inside one; the writer takes every function that waits, runs them one after
// the other, commits once, and only then tells each caller. So one fsync, one
// turn at the change counter, and one insert of events and deliveries serve
// them all, and nobody is told of what is not on disk.

// batchJobs is the most writes that share a transaction.
const batchJobs = 256

// batchTime bounds a transaction on PostgreSQL, whose network may hang.
const batchTime = 30 * time.Second

// work is a write's function. It may run more than once, but only the last
// run counts, so what it leaves for its caller it must assign, not add to.
type work func(context.Context, *tx) error

type job struct {
	account string // whose row is locked; "" none
	work    work
	err     error
	done    chan struct{}
}

// change runs fn in a transaction that holds the row of account, so that all
// writes to one account happen one after the other. account "" holds none.
// Once the writer has taken fn up, change waits for the outcome even when ctx
// ends: it is then known, not guessed.
func (db *DB) change(ctx context.Context, account string, fn work) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{account: account, work: attributed(ctx, fn), done: make(chan struct{})}
	select {
	case db.jobs <- j:
		<-j.done
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	case <-db.stop:
		return errClosed
	}
}

var errClosed = fmt.Errorf("%w: the database is closed", store.ErrUnavailable)

// apart runs fn in a transaction of its own where the database lets several
// write at once. It is for writes that neither lock an account nor make
// changes or events.
func (db *DB) apart(ctx context.Context, fn work) error {
	if !db.postgres {
		return db.change(ctx, "", fn)
	}
	for try := 1; ; try++ {
		err := db.apartOnce(ctx, fn)
		if !retryable(err) || try == retries {
			return err
		}
	}
}

// beginApart has PostgreSQL look rows up by their indexes. Left to itself it
// plans for the small table that it saw first, reads all of it for each batch,
// and keeps to that while the table grows.
const beginApart = `BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`

func (db *DB) apartOnce(ctx context.Context, fn work) error {
	select {
	case <-db.stop:
		return errClosed
	default:
	}
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	t := &tx{db: db, conn: conn}
	if err := t.control(ctx, beginApart); err != nil {
		return err
	}
	if err := fn(ctx, t); err != nil {
		// A connection that cannot roll back is dropped by the pool.
		_ = t.control(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	return t.control(ctx, "COMMIT")
}

// writeLoop is the writer. It ends when the DB is closed.
func (db *DB) writeLoop() {
	w := &writer{db: db}
	defer w.drop()
	for {
		select {
		case j := <-db.jobs:
			jobs := db.gather(j)
			w.run(jobs)
			for _, j := range jobs {
				close(j.done)
			}
		case <-db.stop:
			return
		}
	}
}

// gather takes up the writes that wait beside first.
func (db *DB) gather(first *job) []*job {
	jobs := []*job{first}
	for len(jobs) < batchJobs {
		select {
		case j := <-db.jobs:
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

// writer owns a connection for as long as it works.
type writer struct {
	db    *DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // of conn; SQLite only, pgx has its own
}

// retries is how often a transaction is run that PostgreSQL ends because of
// others.
const retries = 3

// errSpoiled says that a job failed after it had written, so that the
// transaction is no longer that of the other jobs.
var errSpoiled = errors.New("a job failed half done")

// run leaves each job's outcome in it. Jobs hardly ever fail once they have
// begun to write, so at first they run without savepoints; when one does fail,
// all run again with them, and when the whole fails, every job runs alone, so
// that none can spoil it for the rest.
func (w *writer) run(jobs []*job) {
	committing, err := w.transaction(jobs, false)
	if errors.Is(err, errSpoiled) {
		committing, err = w.transaction(jobs, true)
	}
	switch {
	case err == nil:
		return
	case len(jobs) > 1 && !committing && !errors.Is(w.db.kindOf(err), store.ErrUnavailable):
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

// try is one transaction. committing says that its commit was begun, after
// which an error leaves open whether it happened.
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
		if err != nil && t.control(context.WithoutCancel(ctx), "ROLLBACK") != nil {
			w.drop()
		}
	}()
	if err = t.hold(ctx, jobs); err != nil {
		return false, err
	}
	for _, j := range jobs {
		switch {
		case savepoints:
			err = t.doSafely(ctx, j)
		case len(jobs) == 1:
			err = t.do(ctx, j)
		default:
			if j.err = t.do(ctx, j); j.err != nil && t.touched {
				err = errors.Join(errSpoiled, j.err)
			}
		}
		if err != nil {
			return false, err
		}
	}
	if err = t.flush(ctx); err != nil {
		return false, err
	}
	if err = t.control(ctx, "COMMIT"); err == nil {
		t.tell()
	}
	return true, err
}

func (w *writer) begin(ctx context.Context) (*tx, error) {
	begin := "BEGIN"
	if !w.db.postgres {
		begin = "BEGIN IMMEDIATE"
	}
	if w.conn == nil {
		conn, err := w.db.write.Conn(ctx)
		if err != nil {
			return nil, err
		}
		w.conn = conn
		if !w.db.postgres {
			w.stmts = make(map[string]*sql.Stmt)
		}
	}
	t := &tx{db: w.db, conn: w.conn, stmts: w.stmts, taker: w.db.taker.Load()}
	if err := t.control(ctx, begin); err != nil {
		w.drop()
		return nil, err
	}
	return t, nil
}

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

// hold locks the accounts of jobs, always in the same order so that no two
// processes wait for each other, and learns their modes.
func (t *tx) hold(ctx context.Context, jobs []*job) error {
	t.modes = make(map[string]store.Mode)
	var ids []string
	for _, j := range jobs {
		if j.account != "" {
			ids = append(ids, j.account)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	rows, err := t.query(ctx, t.db.lock(`SELECT id, mode FROM accounts WHERE `+t.db.in("id")+` ORDER BY id`),
		t.db.set(slices.Compact(ids)))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var mode store.Mode
		if err := rows.Scan(&id, &mode); err != nil {
			return err
		}
		t.modes[id] = mode
	}
	return rows.Err()
}

// do runs one job. When it fails, t.touched tells whether the transaction is
// still as it was before.
func (t *tx) do(ctx context.Context, j *job) error {
	t.touched = false
	if _, held := t.modes[j.account]; j.account != "" && !held {
		return fmt.Errorf("%w: account", store.ErrNotFound)
	}
	mark := t.mark()
	err := j.work(ctx, t)
	if err != nil {
		t.reset(mark)
		// PostgreSQL ends a transaction at the first error of any statement, and
		// answers its COMMIT with a rollback, not with an error.
		t.touched = t.touched || !refusal(err)
	}
	return err
}

// doSafely runs one job in a savepoint. Its own failure is undone and told to
// it alone; the error returned is one of the whole transaction.
func (t *tx) doSafely(ctx context.Context, j *job) error {
	if err := t.control(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	if j.err = t.do(ctx, j); j.err != nil {
		if retryable(j.err) {
			return j.err
		}
		// This fails when the database has undone the whole transaction already,
		// as SQLite does on a full disk.
		if err := t.control(ctx, "ROLLBACK TO SAVEPOINT job"); err != nil {
			return errors.Join(j.err, err)
		}
	}
	return t.control(ctx, "RELEASE SAVEPOINT job")
}

// tell hands on what has just been committed.
func (t *tx) tell() {
	if len(t.taken) > 0 {
		t.taker.Take(t.taken)
	}
	t.db.commits.publish(Commit{
		Changes:    t.changes,
		Deliveries: len(t.deliveries.id) - len(t.taken) + t.requeued,
		Rollouts:   t.rollouts,
	})
}
