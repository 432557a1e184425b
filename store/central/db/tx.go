package db

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"partneredge/store"
)

// Tx is an open transaction. It is for one goroutine.
type Tx struct {
	dialect
	// Batch gathers what is written at the end of a shared transaction. nil in a
	// transaction of its own.
	Batch Batch

	db      *DB
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt // statements prepared on conn; nil: not kept
	touched bool                 // since its job began, something was written or went wrong
}

// Now returns the clock's time in UTC microseconds, as times are kept.
func (t *Tx) Now() time.Time { return t.db.Now() }

// control runs BEGIN, COMMIT and the like.
func (t *Tx) control(ctx context.Context, statement string) error {
	_, err := t.run(ctx, statement)
	return err
}

// rollbackTime bounds ROLLBACK on PostgreSQL, whose network may hang. The pool drops a
// connection on which it failed.
const rollbackTime = 5 * time.Second

// rollback ends the transaction of a connection, also when ctx has ended.
func (d dialect) rollback(ctx context.Context, conn *sql.Conn) error {
	ctx = context.WithoutCancel(ctx)
	if d.postgres {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rollbackTime)
		defer cancel()
	}
	_, err := conn.ExecContext(ctx, "ROLLBACK")
	return err
}

// prepared returns the kept statement of a query, nil when none are kept.
func (t *Tx) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if t.stmts == nil {
		return nil, nil
	}
	if s := t.stmts[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err == nil {
		t.stmts[query] = s
	}
	return s, err
}

// LimitLocks bounds how long each statement of the rest of the transaction waits for
// locks on PostgreSQL: ErrUnavailable after that.
func (t *Tx) LimitLocks(ctx context.Context, most time.Duration) error {
	if !t.postgres {
		return nil
	}
	return t.control(ctx, setLockTimeout(most))
}

// DeferSync lets the commit return before PostgreSQL's disk has it. It is only for what is
// reported again.
func (t *Tx) DeferSync(ctx context.Context) error {
	if !t.postgres {
		return nil
	}
	return t.control(ctx, "SET LOCAL synchronous_commit = off")
}

// idleWithLock bounds how long PostgreSQL waits for the next statement of a transaction
// that has a lock of TryLock, as when the process was suspended: it then ends it.
const idleWithLock = 5 * time.Second

// TryLock reports whether no other transaction has a table's lock, and takes that for the
// rest of this one. It keeps nobody from the table who does not ask for it. On SQLite,
// where one transaction writes at a time, it is always free.
func (t *Tx) TryLock(ctx context.Context, table string) (free bool, err error) {
	if !t.postgres {
		return true, nil
	}
	var idle string
	err = t.Get(ctx, `SELECT pg_try_advisory_xact_lock(?::regclass::oid::bigint), set_config('idle_in_transaction_session_timeout', ?, true)`,
		[]any{table, strconv.FormatInt(idleWithLock.Milliseconds(), 10)}, &free, &idle)
	return free, err
}

// Lock waits for a table's lock and takes it for the rest of the transaction. It keeps out
// those alone who ask for it, by Lock or LockShared. On SQLite, where one transaction writes
// at a time, it is always free.
func (t *Tx) Lock(ctx context.Context, table string) error {
	return t.lockTable(ctx, "pg_advisory_xact_lock", table)
}

// LockShared is Lock for those who do not keep each other out.
func (t *Tx) LockShared(ctx context.Context, table string) error {
	return t.lockTable(ctx, "pg_advisory_xact_lock_shared", table)
}

func (t *Tx) lockTable(ctx context.Context, lock, table string) error {
	if !t.postgres {
		return nil
	}
	_, err := t.Strings(ctx, "SELECT "+lock+"(?::regclass::oid::bigint)::text", table)
	return err
}

// Exec runs a statement and returns how many rows it wrote.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.touched = true
	n, err := t.run(ctx, query, args...)
	if strings.HasPrefix(query, "DELETE") && breaksReference(err) {
		err = fmt.Errorf("%w: other records refer to it: %w", store.ErrConflict, err)
	}
	return n, err
}

func (t *Tx) run(ctx context.Context, query string, args ...any) (int64, error) {
	query = t.bind(query)
	s, err := t.prepared(ctx, query)
	if err != nil {
		return 0, err
	}
	var result sql.Result
	if s != nil {
		result, err = s.ExecContext(ctx, args...)
	} else {
		result, err = t.conn.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query reads rows in the transaction.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	query = t.bind(query)
	s, err := t.prepared(ctx, query)
	switch {
	case err != nil:
	case s != nil:
		rows, err = s.QueryContext(ctx, args...)
	default:
		rows, err = t.conn.QueryContext(ctx, query, args...)
	}
	if err != nil || !strings.HasPrefix(query, "SELECT") {
		t.touched = true
	}
	return rows, err
}

// Get reads the only row of a query into dest; sql.ErrNoRows when there is none.
func (t *Tx) Get(ctx context.Context, query string, args []any, dest ...any) error {
	_, err := One(ctx, t, func(row Row) (struct{}, error) { return struct{}{}, row.Scan(dest...) }, query, args...)
	return err
}

// Strings reads a query of one text column.
func (t *Tx) Strings(ctx context.Context, query string, args ...any) ([]string, error) {
	return All(ctx, t, Column[string], query, args...)
}
