// Package centraltest gives tests a PostgreSQL database of their own.
package centraltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Postgres returns the URL of a schema of its own, which is dropped when the test
// ends, in the database that EDGE_TEST_POSTGRES names (default: test on this
// machine, as postgres). Where none answers within 5 s the test is skipped;
// when EDGE_REQUIRE_POSTGRES is set, it fails.
func Postgres(t testing.TB) string {
	t.Helper()
	address := os.Getenv("EDGE_TEST_POSTGRES")
	if address == "" {
		address = "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("EDGE_TEST_POSTGRES is not a URL") // the error would show the password
	}
	admin, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := admin.PingContext(ctx); err != nil {
		if os.Getenv("EDGE_REQUIRE_POSTGRES") != "" {
			t.Fatalf("no PostgreSQL: %v", err)
		}
		t.Skipf("NOT TESTED: no PostgreSQL: %v", err)
	}
	schema := "edge_test_" + strings.ToLower(rand.Text())
	if _, err := admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}
