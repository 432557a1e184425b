package central

import (
	"context"
	"database/sql"
	"testing"

	"partneredge/store"
	engine "partneredge/store/central/db"
)

// TestRecordsNeedTheirAccount writes, past the methods of DB, records of an account
// that does not exist: the database itself refuses them.
func TestRecordsNeedTheirAccount(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		agent := func(account string) error {
			return db.change(ctx, "", func(ctx context.Context, t *tx) error {
				_, err := t.Exec(ctx, `UPDATE agents SET account_id = ? WHERE id = ?`, account, a.Agent.ID)
				return err
			})
		}
		if err := agent(store.NewID("acc", db.db.Now())); err == nil {
			t.Error("an agent of an account that does not exist is written")
		}
		noError(t, agent(a.ID))
		err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `DELETE FROM accounts WHERE id = ?`, a.ID)
			return err
		})
		if err == nil {
			t.Error("an account is deleted while it has an agent")
		}
		must(db.Account(ctx, a.ID))(t)
	})
}

// TestCommitsWaitForTheDisk reads, on the connections that are used, the settings
// on which it depends whether a commit is on disk when it is answered, and whether a
// write waits for a backup or another process that has the file.
func TestCommitsWaitForTheDisk(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		settings := map[string]string{`PRAGMA synchronous`: "2", `PRAGMA journal_mode`: "wal", `PRAGMA foreign_keys`: "1", `PRAGMA busy_timeout`: "10000"}
		if p.kind == "postgres" {
			settings = map[string]string{`SHOW synchronous_commit`: plainSetting(t, p, `SHOW synchronous_commit`)}
		}
		for query, want := range settings {
			var got, read string
			noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error { return t.Get(ctx, query, nil, &got) }))
			noError(t, db.db.QueryRow(ctx, query).Scan(&read))
			if got != want || read != want {
				t.Errorf("%s: %s where it writes, %s where it reads, want %s", query, got, read, want)
			}
		}
	})
}

// TestWritesGoByIndexes reads the planner's settings where records are written: a plan that
// is made while a table is small, and kept, must not read all of it when it is large.
func TestWritesGoByIndexes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		if p.kind != "postgres" {
			return
		}
		db := open(t, p)
		for _, setting := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"} {
			var got string
			noError(t, db.change(t.Context(), "", func(ctx context.Context, t *tx) error { return t.Get(ctx, `SHOW `+setting, nil, &got) }))
			if got != "off" {
				t.Errorf("%s is %s", setting, got)
			}
		}
	})
}

// plainSetting reads a setting of PostgreSQL on a connection that this program has
// not set up: as the server's operator wants it.
func plainSetting(t *testing.T, p place, query string) (value string) {
	t.Helper()
	plain, err := sql.Open("pgx", p.url)
	noError(t, err)
	defer func() { _ = plain.Close() }()
	noError(t, plain.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

// TestReadersCannotWrite tries to write where records are read. PostgreSQL has one
// pool for both.
func TestReadersCannotWrite(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		if p.kind == "postgres" {
			return
		}
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		err := db.db.Read(ctx, func(ctx context.Context, q engine.Querier) error {
			_, err := engine.One(ctx, q, engine.Column[string], `UPDATE accounts SET name = 'changed' WHERE id = ? RETURNING id`, a.ID)
			return err
		})
		if got := must(db.Account(ctx, a.ID))(t); err == nil || got != a {
			t.Errorf("a read wrote %+v: %v", got, err)
		}
	})
}
