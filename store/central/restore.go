package central

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
)

// Snapshot writes a copy of the SQLite database in file, as of one moment, to a
// new file. Others may go on reading and writing meanwhile. The copy is checked
// page by page before Snapshot returns.
func Snapshot(ctx context.Context, file, into string) error {
	if err := snapshot(ctx, file, into); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return nil
}

func snapshot(ctx context.Context, file, into string) error {
	db, err := openFile(file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, into); err != nil {
		return err
	}
	made, err := openFile(into)
	if err != nil {
		return err
	}
	defer func() { _ = made.Close() }()
	var found string
	if err := made.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("the copy is damaged: %s", found)
	}
	return nil
}

// openFile opens a database that is there.
func openFile(file string) (*sql.DB, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file://"+(&url.URL{Path: path}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(10000)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// restoredAhead is how many numbers of changes are left out by Restored: more
// than any database gives between a copy and its loss, and few enough for two
// million restores before a number is no float64 any more, as metrics are.
const restoredAhead = 1 << 32

// Restored makes a database that was put back from a copy safe to follow. Nodes
// have seen changes that the copy does not know; numbers that were given again
// would name others, which a node that is ahead would take for those it has
// seen. So numbering goes on far ahead of all that were given, and nothing
// before is known: every node finds itself behind and asks for all it holds
// again.
func (db *DB) Restored(ctx context.Context) error {
	return db.fail("number changes after a restore", db.apart(ctx, attributed(ctx, func(ctx context.Context, t *tx) error {
		var last int64
		if err := t.one(ctx, `UPDATE change_counter SET seq = seq + ? RETURNING seq`, []any{int64(restoredAhead)}, &last); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `DELETE FROM changes`); err != nil {
			return err
		}
		return t.audited(ctx, "database.restore", "", nil, map[string]int64{"change": last})
	})))
}
