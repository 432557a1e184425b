package central

import (
	"context"
	"database/sql"
	"strings"

	"partneredge/store"
)

// tx is an open transaction and what it is to write at its end.
type tx struct {
	db    *DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // statements prepared on conn; nil: not kept

	touched    bool                  // since its job began, something was written or went wrong
	modes      map[string]store.Mode // of the accounts it holds
	targets    map[string][]target   // of accounts, once read
	times      map[series]*times     // once read
	firings    firingRows
	events     eventRows
	deliveries deliveryRows
	changes    []store.Change // numbered by flush
	taker      *Taker         // of the deliveries; nil: nobody
	taken      []Claim        // what it accepted
	requeued   int            // deliveries that are due again
	rollouts   bool           // a rollout was written
	actor      *store.Actor   // of the job that runs, whom the audit log names; nil: nobody
}

// control runs BEGIN, COMMIT and the like.
func (t *tx) control(ctx context.Context, statement string) error {
	_, err := t.run(ctx, statement)
	return err
}

// prepared is the kept statement of a query, nil when none are kept.
func (t *tx) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
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

// exec returns how many rows the statement wrote.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.touched = true
	return t.run(ctx, query, args...)
}

func (t *tx) run(ctx context.Context, query string, args ...any) (int64, error) {
	query = t.db.bind(query)
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

func (t *tx) query(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	query = t.db.bind(query)
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

// one reads the only row of a query; sql.ErrNoRows when there is none.
func (t *tx) one(ctx context.Context, query string, args []any, dest ...any) error {
	rows, err := t.query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return rows.Close()
}

// strings reads a query of one text column.
func (t *tx) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := t.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// bulk runs a statement over many rows, which it finds in the table v. All
// columns have the same number of rows.
func (t *tx) bulk(ctx context.Context, statement string, columns ...column) (touched int64, err error) {
	if !t.db.postgres {
		statement = orFail(statement)
	}
	total := columns[0].len()
	for from := 0; from < total; {
		to := from + t.db.chunk(total-from)
		with, args := t.db.rows(columns, from, to)
		n, err := t.exec(ctx, with+statement, args...)
		if err != nil {
			return touched, err
		}
		touched += n
		from = to
	}
	return touched, nil
}

// orFail makes SQLite leave a statement that fails half done, rather than keep
// a copy of every page in case it must be undone: a tenth of its cost. The
// transaction of a bulk that failed is rolled back in any case.
func orFail(statement string) string {
	for _, verb := range []string{"INSERT", "UPDATE"} {
		if rest, ok := strings.CutPrefix(statement, verb+" "); ok {
			return verb + " OR FAIL " + rest
		}
	}
	return statement
}

// mark remembers what waits to be written, so that reset can undo a job's part.
func (t *tx) mark() [5]int {
	return [5]int{len(t.events.id), len(t.deliveries.id), len(t.changes), len(t.taken), len(t.firings.id)}
}

// reset also forgets what was read, since the job may have read its own writes.
func (t *tx) reset(mark [5]int) {
	t.events.truncate(mark[0])
	t.deliveries.truncate(mark[1])
	t.changes = t.changes[:mark[2]]
	t.taken = t.taken[:mark[3]]
	t.firings.truncate(mark[4])
	clear(t.targets)
}

// flush writes the firings, events, deliveries and changes of all jobs. The counter of
// changes comes last, since until the commit every other process waits for it.
func (t *tx) flush(ctx context.Context) error {
	if err := t.firings.write(ctx, t); err != nil {
		return err
	}
	if err := t.events.write(ctx, t); err != nil {
		return err
	}
	if err := t.deliveries.write(ctx, t); err != nil {
		return err
	}
	return t.writeChanges(ctx)
}
