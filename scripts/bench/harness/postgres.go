package harness

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// PostgresURL returns the URL of the PostgreSQL database in which benches make their
// schemas: EDGE_TEST_POSTGRES, or the database test on this machine.
func PostgresURL() string {
	return cmp.Or(os.Getenv("EDGE_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
}

// PostgresSchema makes a schema in the database at address and returns the URL whose
// connections use it alone. drop removes it.
func (b *Bench) PostgresSchema(ctx context.Context, address string) (schemaURL string, drop func(), err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, errors.New("the PostgreSQL URL cannot be read") // err would show the password
	}
	admin, err := sql.Open("pgx", address)
	if err != nil {
		return "", nil, errors.New("the PostgreSQL URL cannot be read")
	}
	schema := "bench_" + b.Name + "_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		_ = admin.Close()
		return "", nil, err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), func() {
		_, _ = admin.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		_ = admin.Close()
	}, nil
}
