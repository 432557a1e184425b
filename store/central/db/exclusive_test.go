package db

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"partneredge/store/durable"
)

// TestExclusiveFile: of those who want a file of SQLite for themselves, by whatever name, one
// opens it until it closes it. Others may open it beside that one.
func TestExclusiveFile(t *testing.T) {
	if !durable.Locks {
		t.Skip("NOT TESTED: an exclusive file, on a system without locks")
	}
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	opened := func(url string, exclusive bool) (*DB, error) {
		return Open(t.Context(), Config{
			URL:        url,
			Migrations: fstest.MapFS{"sqlite/0001_a.sql": {Data: []byte(numbers)}},
			NewBatch:   nothing,
			Exclusive:  exclusive,
		})
	}
	first, err := opened(file, true)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, url := range []string{file, "sqlite://" + file, link} {
		if d, err := opened(url, true); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("%s a second time: %v", url, err)
			if err == nil {
				_ = d.Close()
			}
		}
	}
	beside, err := opened(file, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(beside.Close(), Snapshot(t.Context(), file, filepath.Join(dir, "copy.db")), first.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := opened(link, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestNotExclusiveAfterAFailure: who could not open a database does not keep others from it.
func TestNotExclusiveAfterAFailure(t *testing.T) {
	url := sqliteURL(t)
	for range 2 {
		_, err := Open(t.Context(), Config{
			URL:        url,
			Migrations: fstest.MapFS{"sqlite/0001_a.sql": {Data: []byte(`CREATE nothing`)}},
			Exclusive:  true,
		})
		if err == nil || errors.Is(err, durable.ErrLocked) {
			t.Errorf("opened by a migration that is none: %v", err)
		}
	}
}
