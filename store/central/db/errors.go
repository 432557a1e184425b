package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"partneredge/store"
)

// Fail wraps err, which came out of the database, with what was tried and with
// its kind. nil stays nil.
func Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, kindOf(err))
}

// kindOf adds to err the kind of store error that it is, unless it has one.
func kindOf(err error) error {
	if errors.Is(err, store.ErrUnavailable) || refusal(err) && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if kind := classify(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// refusal reports whether err refuses a request, rather than that the database
// failed at a statement.
func refusal(err error) bool {
	return is(err, store.ErrNotFound, store.ErrConflict, store.ErrLimit, store.ErrInvalid, sql.ErrNoRows)
}

// is reports whether err is one of several errors.
func is(err error, those ...error) bool {
	return slices.ContainsFunc(those, func(one error) bool { return errors.Is(err, one) })
}

// FromDatabase reports whether err has in it what a database said: its text is for
// logs, and not for whoever asked.
func FromDatabase(err error) bool {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	return errors.As(err, &pg) || errors.As(err, &lite)
}

// NoRoom reports whether the database said that its disk is full.
func NoRoom(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "53100" // disk_full
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	// The second is of a file that is made when the database is opened.
	return ok && (lite.Code()&0xff == sqlite3.SQLITE_FULL || lite.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// classify returns the kind of store error that err is, nil for none.
func classify(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return classifyPostgres(pg.Code)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return classifySQLite(lite.Code())
	}
	var network net.Error
	var path *fs.PathError
	if is(err, driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded) ||
		errors.As(err, &network) || errors.As(err, &path) || pgconn.Timeout(err) ||
		strings.Contains(err.Error(), "database is closed") || strings.Contains(err.Error(), "conn closed") {
		return store.ErrUnavailable
	}
	return nil
}

const foreignKeyViolation = "23503" // of PostgreSQL

// breaksReference reports whether a database refused a statement for a foreign key.
func breaksReference(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == foreignKeyViolation
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}

// classifyPostgres reads an SQLSTATE (PostgreSQL documentation, appendix A).
func classifyPostgres(code string) error {
	switch {
	case code == "23505": // unique_violation
		return store.ErrConflict
	case code == foreignKeyViolation: // of what refers to it; Exec tells a deletion apart
		return store.ErrNotFound
	case code[:2] == "22", code == "23514", code == "23502", code == "54000":
		// data exception, check and not-null violation, a value beyond a limit
		return store.ErrInvalid
	case code[:2] == "08", code[:2] == "40", code[:2] == "53", code[:2] == "57", code[:2] == "58",
		code == "55P03", code == "55000", code == "25006", code == "25P03":
		// connection, rollback, resources, operator, system, lock not available, a
		// standby, a transaction that did nothing for too long
		return store.ErrUnavailable
	}
	return nil
}

// classifySQLite reads an extended result code, whose low byte is the primary.
func classifySQLite(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return store.ErrConflict
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return store.ErrNotFound
	case sqlite3.SQLITE_CONSTRAINT_CHECK, sqlite3.SQLITE_CONSTRAINT_NOTNULL, sqlite3.SQLITE_CONSTRAINT_DATATYPE:
		return store.ErrInvalid
	}
	switch code & 0xff {
	case sqlite3.SQLITE_TOOBIG:
		return store.ErrInvalid
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT:
		return store.ErrUnavailable
	}
	return nil
}

// retryable reports whether PostgreSQL ended a transaction only because of
// others, so that the same again may succeed.
func retryable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}

// isLockTimeout reports whether PostgreSQL ended a statement because it had waited
// for a lock for longer than lock_timeout.
func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}
