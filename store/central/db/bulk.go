package db

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Bulk is a statement over many records, which it finds as rows of the table v.
type Bulk[T any] struct {
	Tried     string        // what Run tries, for its errors
	Columns   string        // of v, separated by commas
	Row       func(T) []any // of strings and int64s, one for each column
	Statement string
}

// Insert returns a Bulk that inserts records into a table.
func Insert[T any](table, columns string, row func(T) []any) Bulk[T] {
	return Bulk[T]{
		Tried: "write " + table, Columns: columns, Row: row,
		Statement: "INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM v",
	}
}

// Run runs the statement over the records. For none nothing is run.
func (b Bulk[T]) Run(ctx context.Context, t *Tx, records []T) error {
	_, err := b.Count(ctx, t, records)
	return err
}

// Count does as Run, and returns how many rows the statement wrote.
func (b Bulk[T]) Count(ctx context.Context, t *Tx, records []T) (written int64, err error) {
	statement := b.Statement
	if !t.postgres {
		statement = orFail(statement)
	}
	for len(records) > 0 {
		rows := make([][]any, t.chunk(len(records)))
		for i := range rows {
			rows[i] = b.Row(records[i])
		}
		with, args := t.with(b.Columns, rows)
		n, err := t.Exec(ctx, with+statement, args...)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", b.Tried, err)
		}
		written += n
		records = records[len(rows):]
	}
	return written, nil
}

// orFail makes SQLite leave a statement that fails half done, rather than keep
// a copy of every page in case it must be undone: a tenth of its cost. The
// transaction of a bulk that failed is rolled back in any case.
func orFail(statement string) string {
	for _, verb := range []string{"INSERT", "UPDATE"} {
		if rest, ok := strings.CutPrefix(statement, verb+" "); ok {
			return verb + " OR FAIL " + rest
		}
	}
	return statement
}

// bulkRows is the most rows that one statement of SQLite carries. The driver
// looks for each parameter among all of a statement's, so the cost of a
// statement grows with the square of its rows. Numbers of rows are powers of
// two up to it, so that few statements need preparing.
const bulkRows = 8

// chunk returns how many of n rows the next statement carries.
func (d dialect) chunk(n int) int {
	if d.postgres {
		return n
	}
	size := bulkRows
	for size > n {
		size /= 2
	}
	return size
}

// with returns "WITH v(a, b) AS (…) " over rows, for a query to begin with.
func (d dialect) with(columns string, rows [][]any) (with string, args []any) {
	if !d.postgres {
		row := "(?" + strings.Repeat(", ?", len(rows[0])-1) + ")"
		return "WITH v(" + columns + ") AS (VALUES " + row + strings.Repeat(", "+row, len(rows)-1) + ") ", slices.Concat(rows...)
	}
	arrays := make([]string, len(rows[0]))
	for i, first := range rows[0] {
		if _, text := first.(string); text {
			arrays[i], args = "?::text[]", append(args, column[string](rows, i))
		} else {
			arrays[i], args = "?::bigint[]", append(args, column[int64](rows, i))
		}
	}
	return "WITH v(" + columns + ") AS (SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ")) ", args
}

// column returns the i-th values of rows.
func column[T any](rows [][]any, i int) []T {
	values := make([]T, len(rows))
	for j, row := range rows {
		values[j] = row[i].(T)
	}
	return values
}
