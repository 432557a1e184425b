// Package central keeps the origin's records in SQL: SQLite by default,
// PostgreSQL by URL. Both hold the same tables and are asked the same queries;
// what differs is in dialect.go and in the migrations.
//
// Writes are durable when a method returns nil. Those that concern nodes are
// numbered (store.Change) and those that concern partners become events with
// their deliveries, all in the transaction of the write itself.
//
// Errors wrap one of store's kinds: ErrNotFound, ErrConflict, ErrLimit,
// ErrInvalid, or ErrUnavailable when the database cannot be reached or is full.
// Any other error is a fault of this program or of the database's content. Text
// that is not UTF-8 or holds a NUL is ErrInvalid in a record, ErrNotFound as an
// id.
package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config says where the database is.
type Config struct {
	// URL of the database. A path, or sqlite://PATH, is a SQLite file, made with
	// mode 0600 when it is not there; postgres://… is PostgreSQL. "" is
	// central.db in the working directory.
	URL string
	// Log of what the store does on its own. nil: none.
	Log *slog.Logger
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Secrets encrypts signing secrets at rest. nil: they are kept as they are.
	Secrets Sealer
}

// DB is the store. It is safe for many goroutines.
type DB struct {
	dialect
	log     *slog.Logger
	clock   func() time.Time
	commits commits

	read  *sql.DB
	write *sql.DB // of SQLite: one connection; of PostgreSQL: the same as read

	jobs      chan *job
	stop      chan struct{}
	closeOnce sync.Once
	closeErr  error
	writer    sync.WaitGroup
	taker     atomic.Pointer[Taker]
	sealer    Sealer
	standings atomic.Uint64 // see StandingsVersion
}

// Open opens the database and brings its tables up to date. A database that a
// newer version has changed is refused.
func Open(ctx context.Context, c Config) (*DB, error) {
	db := &DB{
		log:   c.Log,
		clock: c.Now,
		jobs:  make(chan *job),
		stop:  make(chan struct{}),
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	if db.sealer = c.Secrets; db.sealer == nil {
		db.sealer = plain{}
	}
	if db.clock == nil {
		db.clock = time.Now
	}
	if err := db.connect(c.URL); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := db.migrate(ctx); err != nil {
		_ = db.closePools()
		return nil, fmt.Errorf("open %s database: %w", db.Kind(), db.kindOf(err))
	}
	db.writer.Go(db.writeLoop)
	return db, nil
}

// Close finishes the writes under way and closes the database. Later calls of
// any method fail; a second Close returns what the first did.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.stop)
		db.writer.Wait()
		db.closeErr = db.closePools()
	})
	return db.closeErr
}

func (db *DB) closePools() error {
	err := db.read.Close()
	if db.write != db.read {
		err = errors.Join(err, db.write.Close())
	}
	return err
}

// Kind is "sqlite" or "postgres".
func (db *DB) Kind() string { return db.dialect.name }

// now is the clock in UTC microseconds, as times are kept.
func (db *DB) now() time.Time { return db.clock().UTC().Truncate(time.Microsecond) }

// queryRow reads one row outside any write.
func (db *DB) queryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return db.read.QueryRowContext(ctx, db.bind(query), args...)
}

// query reads rows outside any write.
func (db *DB) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.read.QueryContext(ctx, db.bind(query), args...)
}
