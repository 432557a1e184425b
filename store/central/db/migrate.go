package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"partneredge/store"
)

// migrationLock is the number of the advisory lock that lets one process at a
// time change the tables of a PostgreSQL database.
const migrationLock = 0x65646765 // "edge"

// Times of migrations on PostgreSQL. A statement that waits for the lock of a table
// holds up all that want the table after it, so it waits in short tries.
const (
	lockTimeout   = 2 * time.Second // of one try
	lockRetry     = time.Second     // between two, in which others go on
	lockTriesTime = time.Minute     // of all of one migration
)

// ErrNewer is the error of Open for a database that a newer version has changed.
var ErrNewer = errors.New("the database belongs to a newer version")

// migration is one change of the tables. Its file's name starts with its number,
// in four digits.
type migration struct {
	number int
	name   string
	text   string
}

func readMigrations(files fs.FS, folder string) ([]migration, error) {
	entries, err := fs.ReadDir(files, folder) // sorted by name
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != i+1 {
			return nil, fmt.Errorf("migration %s: expected number %04d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, folder+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, migration{number, e.Name(), string(text)})
	}
	return all, nil
}

// migrate applies the migrations that the database does not have, each in a
// transaction that also notes it. The transaction excludes other starters: a
// second process waits, then finds nothing left to do.
func (d *DB) migrate(ctx context.Context, files fs.FS) (err error) {
	all, err := readMigrations(files, d.name)
	if err != nil {
		return err
	}
	conn, err := d.firstConn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if !d.postgres {
		// An index of a full table is sorted on the disk: it may not fit into memory.
		if _, err := conn.ExecContext(ctx, "PRAGMA temp_store = file"); err != nil {
			return err
		}
		defer func() {
			_, restored := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA temp_store = memory")
			err = errors.Join(err, restored)
		}()
	}
	return d.migrateAll(ctx, func() (done bool, err error) { return d.migrateNext(ctx, conn, all) })
}

// migrateAll calls next, which applies one migration, until it is done. One that waits for a
// lock, or that PostgreSQL ends as a deadlock with others, is tried again, for lockTriesTime.
func (d *DB) migrateAll(ctx context.Context, next func() (done bool, err error)) error {
	began := time.Now()
	for {
		done, err := next()
		switch {
		case (isLockTimeout(err) || retryable(err)) && time.Since(began) < lockTriesTime:
			d.log.Warn("a migration waits for others who use its tables", "err", err)
			if err := wait(ctx, lockRetry); err != nil {
				return err
			}
		case done || err != nil:
			return err
		default:
			began = time.Now()
		}
	}
}

// wait returns after a time, or with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// firstConn connects to the database. Only one starter at a time can turn a new
// SQLite file to its write-ahead log, and the others get the error at once that it is
// busy, whatever their timeout: they try again for ten seconds.
func (d *DB) firstConn(ctx context.Context) (*sql.Conn, error) {
	limit := time.After(10 * time.Second)
	again := time.Tick(20 * time.Millisecond)
	for {
		conn, err := d.write.Conn(ctx)
		if err == nil || !errors.Is(kindOf(err), store.ErrUnavailable) || d.postgres {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-limit:
			return nil, err
		case <-again:
		}
	}
}

// migrateNext applies one migration, or reports that there is none left.
func (d *DB) migrateNext(ctx context.Context, conn *sql.Conn, all []migration) (done bool, err error) {
	begin := "BEGIN EXCLUSIVE"
	if d.postgres {
		begin = beginLimited + "; SELECT pg_advisory_xact_lock(" + strconv.Itoa(migrationLock) + ")"
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return false, fmt.Errorf("wait for other starters: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.rollback(ctx, conn))
		}
	}()
	if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations
		(number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`); err != nil {
		return false, err
	}
	var have int
	if err := conn.QueryRowContext(ctx, `SELECT coalesce(max(number), 0) FROM schema_migrations`).Scan(&have); err != nil {
		return false, err
	}
	switch {
	case have > len(all):
		return false, fmt.Errorf("%w: it has migration %d, this one knows %d", ErrNewer, have, len(all))
	case have == len(all):
		_, err := conn.ExecContext(ctx, "COMMIT")
		return err == nil, err
	}
	m := all[have]
	if err := d.limitLocks(ctx, conn); err != nil {
		return false, err
	}
	if _, err := conn.ExecContext(ctx, m.text); err != nil {
		return false, fmt.Errorf("apply migration %s: %w", m.name, err)
	}
	if _, err := conn.ExecContext(ctx, d.bind(`INSERT INTO schema_migrations VALUES (?, ?, ?)`),
		m.number, m.name, d.Now().UnixMicro()); err != nil {
		return false, fmt.Errorf("note migration %s: %w", m.name, err)
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return false, fmt.Errorf("commit migration %s: %w", m.name, err)
	}
	d.log.Info("database migrated", "migration", m.name)
	return false, nil
}

// limitLocks bounds how long the rest of a transaction waits for the lock of a
// table. Waiting for other starters came before, and holds nobody else up.
func (d *DB) limitLocks(ctx context.Context, conn *sql.Conn) error {
	if !d.postgres {
		return nil
	}
	_, err := conn.ExecContext(ctx, setLockTimeout(lockTimeout))
	return err
}

func setLockTimeout(most time.Duration) string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", most.Milliseconds())
}
