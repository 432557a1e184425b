package db

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"partneredge/store/central/centraltest"
)

// TestMigrationHoldsNobodyUp migrates a table of PostgreSQL that a long transaction
// reads: others read it meanwhile, and the migration is applied when that
// transaction has ended.
func TestMigrationHoldsNobodyUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	url := centraltest.Postgres(t)
	files := fstest.MapFS{"postgres/0001_a.sql": {Data: []byte(`CREATE TABLE a (n BIGINT)`)}}
	first, err := Open(ctx, Config{URL: url, Migrations: files})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	long, err := first.read.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := long.QueryRowContext(ctx, `SELECT count(*) FROM a`).Scan(&n); err != nil {
		t.Fatal(err)
	}

	files["postgres/0002_b.sql"] = &fstest.MapFile{Data: []byte(`ALTER TABLE a ADD COLUMN m BIGINT`)}
	opened := make(chan error, 1)
	go func() { // ends when the long transaction does
		second, err := Open(ctx, Config{URL: url, Migrations: files})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	waits := func() (found bool) {
		if err := first.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks
			WHERE NOT granted AND relation = 'a'::regclass)`).Scan(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for tick := time.NewTicker(10 * time.Millisecond); !waits(); <-tick.C {
	}
	if err := first.read.QueryRowContext(ctx, `SELECT count(*) FROM a`).Scan(&n); err != nil {
		t.Fatalf("a read behind a migration that waits: %v", err)
	}
	select {
	case err := <-opened:
		t.Fatalf("migrated while the table was read: %v", err)
	default:
	}
	end(t, long)
	if err := <-opened; err != nil {
		t.Fatalf("migrate once the table is free: %v", err)
	}
}

func end(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestEachMigrationIsTriedForItself has two migrations wait for locks, each for less than
// what one is tried for, and then one for ever.
func TestEachMigrationIsTriedForItself(t *testing.T) {
	for name, code := range map[string]string{"lock timeout": "55P03", "deadlock": "40P01"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { triedForItself(t, &pgconn.PgError{Code: code}) })
		})
	}
}

func triedForItself(t *testing.T, locked error) {
	d := &DB{log: slog.New(slog.DiscardHandler)}
	applied, began := 0, time.Now()
	err := d.migrateAll(t.Context(), func() (done bool, err error) {
		time.Sleep(lockTimeout)
		if time.Since(began) < lockTriesTime*2/3 {
			return false, locked
		}
		applied, began = applied+1, time.Now()
		return applied == 2, nil
	})
	if err != nil || applied != 2 {
		t.Errorf("%d migrations were applied: %v", applied, err)
	}
	err = d.migrateAll(t.Context(), func() (done bool, err error) { return false, locked })
	if !errors.Is(err, locked) || time.Since(began) < lockTriesTime {
		t.Errorf("one that waits for ever ends after %v: %v", time.Since(began), err)
	}
}

// TestMigrationsSortOnTheDisk: what a migration sorts goes to files, and what comes after it
// to memory again.
func TestMigrationsSortOnTheDisk(t *testing.T) {
	d, err := Open(t.Context(), Config{
		URL:        filepath.Join(t.TempDir(), "a.db"),
		Migrations: fstest.MapFS{"sqlite/0001_a.sql": {Data: []byte(`CREATE TABLE migrated AS SELECT temp_store FROM pragma_temp_store`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const file, memory = 1, 2
	var during, after int
	err = d.write.QueryRowContext(t.Context(), `SELECT migrated.temp_store, now.temp_store FROM migrated, pragma_temp_store AS now`).Scan(&during, &after)
	if err != nil {
		t.Fatal(err)
	}
	if during != file || after != memory {
		t.Errorf("temp_store was %d during the migration and is %d after it, want %d and %d", during, after, file, memory)
	}
}
