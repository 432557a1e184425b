// Package dbtest explains to tests how a database runs a query.
package dbtest

import (
	"context"
	"strings"
	"testing"

	"partneredge/store/central/db"
)

// Explain returns the plan of a query, on PostgreSQL with the rows that it read.
func Explain(t *testing.T, d *db.DB, query string, args ...any) string {
	t.Helper()
	how := "EXPLAIN QUERY PLAN "
	if d.Postgres() {
		how = "EXPLAIN (ANALYZE) "
	}
	lines, err := db.All(context.Background(), d, func(row db.Row) (line string, err error) {
		if d.Postgres() {
			err = row.Scan(&line)
			return line, err
		}
		var n int
		err = row.Scan(&n, &n, &n, &line)
		return line, err
	}, how+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
