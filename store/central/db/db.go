// Package db runs SQL on SQLite or PostgreSQL for the origin's records. It
// connects, migrates, reads, and puts the writes of many callers into shared
// transactions; it knows no table but that of its own migrations.
//
// Queries are written once, with "?" for parameters. What differs between the
// databases is in dialect.go and bulk.go.
//
// Errors wrap one of store's kinds: ErrNotFound, ErrConflict, ErrLimit,
// ErrInvalid, or ErrUnavailable when the database cannot be reached or is full.
// Any other error is a fault of this program or of the database's content.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a DB. Every field but Log, Now, Local and Exclusive is required.
type Config struct {
	// URL of the database. A path, or sqlite://PATH, is a SQLite file, made with
	// mode 0600 when it is not there; postgres://… is PostgreSQL. "" is
	// central.db in the working directory.
	URL string
	// Log of migrations. nil: none.
	Log *slog.Logger
	// Now is the clock. nil: on PostgreSQL the database's, else Local.
	Now func() time.Time
	// Local is the clock of the process. nil: time.Now.
	Local func() time.Time
	// Migrations has the folders "sqlite" and "postgres", with files whose names
	// begin with 0001, 0002 and so on.
	Migrations fs.FS
	// NewBatch makes the Batch of a shared transaction.
	NewBatch func(*Tx) Batch
	// Exclusive keeps others that set it from the file of SQLite as long as the DB is open:
	// they get durable.ErrLocked. On PostgreSQL it does nothing.
	Exclusive bool
}

// DB is a database. It is safe for many goroutines.
type DB struct {
	dialect
	log      *slog.Logger
	clock    clock
	newBatch func(*Tx) Batch

	read     *sql.DB
	write    *sql.DB   // of SQLite: one connection; of PostgreSQL: the same as read
	frequent *frequent // of read
	unlock   func()    // unlocks the file of SQLite; nil: it is not locked

	jobs      chan *job
	emptying  chan chan error // who waits for EmptyLog
	failing   atomic.Bool     // the last write was not taken
	stop      chan struct{}
	closeOnce sync.Once
	closeErr  error
	writer    sync.WaitGroup // and the loop of the clock
	endClock  context.CancelFunc
}

// Open connects to the database and applies the migrations that it does not
// have. It refuses a database that has more of them with ErrNewer.
func Open(ctx context.Context, c Config) (*DB, error) {
	d := &DB{
		log:      cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		clock:    clock{local: c.Local},
		newBatch: c.NewBatch,
		jobs:     make(chan *job),
		emptying: make(chan chan error),
		stop:     make(chan struct{}),
	}
	switch {
	case c.Now != nil:
		d.clock.local = c.Now
	case c.Local == nil:
		d.clock.local = time.Now
	}
	if err := d.connect(c.URL, c.Exclusive); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d.frequent = &frequent{pool: d.read}
	sharesClock := d.postgres && c.Now == nil
	err := d.migrate(ctx, c.Migrations)
	if err == nil {
		err = d.findTimeline(ctx)
	}
	if err == nil && sharesClock {
		// Each reading has little time, since one that takes long is inexact.
		for range 5 {
			if err = d.readClock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				break
			}
		}
	}
	if err != nil {
		_ = d.closePools()
		return nil, fmt.Errorf("open %s database: %w", d.Kind(), kindOf(err))
	}
	d.writer.Go(d.writeLoop)
	running, cancel := context.WithCancel(context.Background())
	d.endClock = cancel
	if sharesClock {
		d.writer.Go(func() { d.clockLoop(running) })
	}
	return d, nil
}

// Close finishes the writes under way and closes the database. Later calls of
// any method fail; a second Close returns what the first did.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		close(d.stop)
		d.endClock()
		d.writer.Wait()
		d.closeErr = d.closePools()
	})
	return d.closeErr
}

func (d *DB) closePools() error {
	err := d.read.Close()
	if d.write != d.read {
		err = errors.Join(err, d.write.Close())
	}
	if d.unlock != nil {
		d.unlock()
	}
	return err
}

// Now returns the clock's time in UTC microseconds, as times are kept. Processes
// that share a database agree on it.
func (d *DB) Now() time.Time { return d.clock.now().UTC().Truncate(time.Microsecond) }

// Local returns when a time of Now is by the clock of this process; zero stays
// zero.
func (d *DB) Local(t time.Time) time.Time { return d.clock.toLocal(t) }

// FromLocal is the reverse of Local.
func (d *DB) FromLocal(t time.Time) time.Time { return d.clock.fromLocal(t) }

// QueryRow reads one row outside any write.
func (d *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return d.read.QueryRowContext(ctx, d.bind(query), args...)
}

// Query reads rows outside any write.
func (d *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.read.QueryContext(ctx, d.bind(query), args...)
}
