package db

import (
	"context"
	"database/sql"
	"errors"
)

// Read has fn read. On SQLite it does so in a transaction that cannot write and waits for no
// writer: all queries see the database of one moment, and their statements are kept as those
// of Frequent are, so they must be few. On PostgreSQL each query is one by itself.
func (d *DB) Read(ctx context.Context, fn func(context.Context, Querier) error) (err error) {
	if d.postgres {
		return fn(ctx, d)
	}
	tx, err := d.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	r := &reading{frequent: d.frequent, tx: tx}
	defer func() {
		if ended := tx.Rollback(); !errors.Is(ended, sql.ErrTxDone) { // which it is with ctx
			err = errors.Join(err, ended)
		}
		for _, query := range r.first {
			_, _ = d.frequent.prepared(ctx, query) // or the next time
		}
	}()
	return fn(ctx, r)
}

// reading is a transaction that only reads.
type reading struct {
	frequent *frequent
	tx       *sql.Tx
	first    []string // queries to keep from now on: preparing takes a connection, of which this has one
}

// Query implements Querier.
func (r *reading) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.frequent.kept(query); s != nil {
		return r.tx.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	r.first = append(r.first, query)
	return r.tx.QueryContext(ctx, query, args...)
}
