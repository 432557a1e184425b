// Package central keeps the origin's records in SQL: SQLite by default,
// PostgreSQL by URL. Both hold the same tables and are asked the same queries.
//
// Writes are durable when a method returns nil. Those that concern nodes are
// numbered (store.Change) and those that concern partners become events with
// their deliveries, all in the transaction of the write itself; OnCommit
// announces both.
//
// Errors wrap one of store's kinds: ErrNotFound, ErrConflict, ErrLimit,
// ErrInvalid, or ErrUnavailable when the database cannot be reached or is full.
// Any other error is a fault of this program or of the database's content. Text
// that is not UTF-8 or holds a NUL is ErrInvalid in a record, ErrNotFound as an
// id.
//
// Package db below it runs the SQL, deliveries keeps the queue and log of
// webhooks, registry the content of releases, fleet the nodes and what they are to
// run, quarantine the leads that were refused, usage what each key was used for,
// idempotency the answers that are given again, and audit the log of who changed what.
// The methods of deliveries, registry, fleet and usage are those of DB as well.
package central

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/fleet"
	"partneredge/store/central/registry"
	"partneredge/store/central/usage"
)

// Config of a DB.
type Config struct {
	// URL of the database. A path, or sqlite://PATH, is a SQLite file, made with
	// mode 0600 when it is not there; postgres://… is PostgreSQL. "" is
	// central.db in the working directory.
	URL string
	// Log of migrations and of secrets that cannot be opened. nil: none.
	Log *slog.Logger
	// Now is the clock. nil: on PostgreSQL the database's, else Local.
	Now func() time.Time
	// Local is the clock of the process. nil: time.Now.
	Local func() time.Time
	// Secrets encrypts signing secrets at rest. nil: they are kept as they are.
	Secrets deliveries.Sealer
	// Exclusive keeps others that set it from the file of SQLite as long as the DB is open:
	// they get durable.ErrLocked. On PostgreSQL it does nothing.
	Exclusive bool
}

// DB is the store. It is safe for many goroutines.
type DB struct {
	*deliveries.Store
	*registry.Registry
	*fleet.Fleet
	*usage.Usage

	db      *db.DB
	log     *slog.Logger
	sealer  deliveries.Sealer
	commits commits
}

//go:embed migrations
var migrationFiles embed.FS

// Open opens the database and brings its tables up to date. A database that a
// newer version has changed is refused.
func Open(ctx context.Context, c Config) (*DB, error) {
	d := &DB{sealer: c.Secrets, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler))}
	if d.sealer == nil {
		d.sealer = deliveries.Plain{}
	}
	migrations, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	d.db, err = db.Open(ctx, db.Config{
		URL: c.URL, Log: d.log, Now: c.Now, Local: c.Local, Migrations: migrations, NewBatch: d.newTx, Exclusive: c.Exclusive,
	})
	if err != nil {
		return nil, err
	}
	d.Store = deliveries.New(d.db, d.sealer, d.log)
	d.Registry = registry.New(d.db)
	d.Fleet = fleet.New(d.db)
	d.Usage = usage.New(d.db)
	if err := d.write(ctx, "begin a history of changes", nil, continueHistory); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close finishes the writes under way and closes the database. Later calls of
// any method fail; a second Close returns what the first did.
func (d *DB) Close() error { return d.db.Close() }

// Writable returns why the database takes no writes, though it may be read.
func (d *DB) Writable(ctx context.Context) error { return d.db.Writable(ctx) }

// Kind returns "sqlite" or "postgres".
func (d *DB) Kind() string { return d.db.Kind() }

// Now returns the time by which records are kept. Processes that share a database
// agree on it.
func (d *DB) Now() time.Time { return d.db.Now() }
