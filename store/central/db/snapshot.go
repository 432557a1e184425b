package db

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// Snapshot writes a copy of the SQLite database in file, as of one moment, to a
// new file, for its owner only. Others may go on reading and writing meanwhile. The copy is checked
// page by page before Snapshot returns.
func Snapshot(ctx context.Context, file, into string) error {
	if err := snapshot(ctx, file, into); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return nil
}

func snapshot(ctx context.Context, file, into string) error {
	original, err := openFile(file)
	if err != nil {
		return err
	}
	defer func() { _ = original.Close() }()
	// SQLite would make it for all to read.
	empty, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := empty.Close(); err != nil {
		return err
	}
	if _, err := original.ExecContext(ctx, `VACUUM INTO ?`, into); err != nil {
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

// openFile opens a database file, which must exist.
func openFile(file string) (*sql.DB, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	pool, err := sql.Open("sqlite", "file://"+(&url.URL{Path: path}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(10000)")
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return pool, err
}
