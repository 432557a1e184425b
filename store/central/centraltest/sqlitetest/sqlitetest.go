// Package sqlitetest gives tests a SQLite database that has the origin's tables already.
package sqlitetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"partneredge/store/central/db"
)

// Template is an empty database that is migrated once a test program: that takes a
// hundred times as long as to copy it.
type Template struct {
	// Migrations is the folder store/central/migrations.
	Migrations string

	once sync.Once
	text []byte
	err  error
}

// Copy writes a copy to a new file and returns its path. The database is one that has
// been migrated and never used: whoever opens it first begins its history.
func (m *Template) Copy(t testing.TB, path string) string {
	t.Helper()
	m.once.Do(func() { m.text, m.err = migrated(m.Migrations) })
	if m.err != nil {
		t.Fatalf("migrating a database to copy: %v", m.err)
	}
	if err := os.WriteFile(path, m.text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// migrated returns the file of a database that has had all migrations and nothing else.
func migrated(migrations string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	d, err := db.Open(context.Background(), db.Config{URL: path, Migrations: os.DirFS(migrations)})
	if err != nil {
		return nil, err
	}
	if err := d.Close(); err != nil { // which writes the log back into the file
		return nil, err
	}
	return os.ReadFile(path)
}
