package central

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/centraltest/sqlitetest"
)

// place is where a test keeps a database of its own.
type place struct {
	kind string
	url  string
}

var schema = sqlitetest.Template{Migrations: "migrations"}

// each runs a test on both databases, side by side.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, place{"sqlite", filepath.Join(t.TempDir(), "central test #1?.db")})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, place{"postgres", centraltest.Postgres(t)})
	})
}

func open(t testing.TB, p place) *DB { return openWith(t, p, Config{}) }

// openWith opens a database. SQLite's is made of a template if it is not there.
func openWith(t testing.TB, p place, c Config) *DB {
	t.Helper()
	c.URL = p.url
	if _, err := os.Stat(p.url); p.kind == "sqlite" && filepath.IsAbs(p.url) && errors.Is(err, fs.ErrNotExist) {
		schema.Copy(t, p.url)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	db, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// must stops the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var unique atomic.Uint64

// newAccount is an account in a mode.
func newAccount(t testing.TB, db *DB, mode store.Mode) store.Account {
	t.Helper()
	return must(db.CreateAccount(context.Background(), store.Account{
		Name: "Ōsaka Höme — 不動産 🏡", Mode: mode,
		Agent: store.Agent{Email: "kim@example.com", FullName: "Kim Łee"},
	}))(t)
}

// newKey of an account, live, whose hash nobody has.
func keyFor(account string) store.Key {
	k := store.Key{AccountID: account, Environment: store.Live, Scopes: []string{store.ScopeReadAgent}}
	_, _ = rand.Read(k.Hash[:])
	return k
}

// subscriptionFor an account, live, to some events.
func subscriptionFor(account string, events ...string) store.Subscription {
	return store.Subscription{
		ID: store.NewID("whs", time.Now()), AccountID: account, KeyID: "key_x", Environment: store.Live,
		TargetURL: "https://hooks.example.com/in", Events: events, Secret: "5ec7e7",
	}
}
