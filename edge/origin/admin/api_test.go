package admin

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"partneredge/store"
)

// TestDatabasesAreNotQuoted keeps what a database said out of answers, and what the
// store says itself in them.
func TestDatabasesAreNotQuoted(t *testing.T) {
	said := &pgconn.PgError{Severity: "ERROR", Code: "23505", Message: `duplicate key value violates unique constraint "rollouts_active"`}
	for _, kind := range []error{store.ErrConflict, store.ErrInvalid, store.ErrNotFound, store.ErrUnavailable} {
		if p := problemOf(fmt.Errorf("add: %w: %w", kind, said)); p.Detail != "" {
			t.Errorf("%v: %+v quotes a database", kind, p)
		}
	}
	if p := problemOf(fmt.Errorf("add: %w: the version is that of another release", store.ErrConflict)); p.Detail != "the version is that of another release" {
		t.Errorf("%+v", p)
	}
}
