package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// frequent is a Querier that keeps the statement of each query for as long as the pool is
// open. The pool prepares it once on each connection that runs it.
type frequent struct {
	pool *sql.DB

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

// Frequent returns a Querier for queries that run often, outside any write. On SQLite it
// keeps what it prepares, so the queries must be few; on PostgreSQL pgx keeps that of every
// query.
func (d *DB) Frequent() Querier {
	if d.postgres {
		return d
	}
	return d.frequent
}

// Query implements Querier.
func (f *frequent) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := f.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// kept returns the statement of a query, nil when there is none yet.
func (f *frequent) kept(query string) *sql.Stmt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stmts[query]
}

// prepared returns the statement of a query. It waits for no other query's.
func (f *frequent) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := f.kept(query); s != nil {
		return s, nil
	}
	made, err := f.pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.stmts[query]; s != nil { // another caller was sooner
		_ = made.Close()
		return s, nil
	}
	if f.stmts == nil {
		f.stmts = make(map[string]*sql.Stmt)
	}
	f.stmts[query] = made
	return made, nil
}

// Read calls fn with what it reads from. On SQLite that is a transaction that cannot write
// and waits for no writer: all queries see the database of one moment, and their statements are kept as those
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
