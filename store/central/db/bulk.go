package db

import (
	"context"
	"strings"
)

// Column is one column of rows that are written together.
type Column struct {
	name string
	text []string // or:
	ints []int64
}

// Text makes a Column of text.
func Text(name string, values []string) Column { return Column{name: name, text: values} }

// Ints makes a Column of integers.
func Ints(name string, values []int64) Column { return Column{name: name, ints: values} }

func (c Column) len() int { return len(c.text) + len(c.ints) }

func (c Column) value(i int) any {
	if c.text != nil {
		return c.text[i]
	}
	return c.ints[i]
}

// Bulk runs a statement over many rows, which it finds in the table v. All
// columns have the same number of rows; for none nothing is run.
func (t *Tx) Bulk(ctx context.Context, statement string, columns ...Column) error {
	if !t.postgres {
		statement = orFail(statement)
	}
	total := columns[0].len()
	for from := 0; from < total; {
		to := from + t.chunk(total-from)
		with, args := t.rows(columns, from, to)
		if _, err := t.Exec(ctx, with+statement, args...); err != nil {
			return err
		}
		from = to
	}
	return nil
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

// rows returns "WITH v(a, b) AS (…) " over the rows from..to of columns, for a
// query to begin with.
func (d dialect) rows(columns []Column, from, to int) (with string, args []any) {
	var b strings.Builder
	b.WriteString("WITH v(")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.name)
	}
	if d.postgres {
		b.WriteString(") AS (SELECT * FROM unnest(")
		for i, c := range columns {
			if i > 0 {
				b.WriteString(", ")
			}
			if c.text != nil {
				b.WriteString("?::text[]")
				args = append(args, c.text[from:to])
			} else {
				b.WriteString("?::bigint[]")
				args = append(args, c.ints[from:to])
			}
		}
		b.WriteString(")) ")
		return b.String(), args
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	b.WriteString(") AS (VALUES " + row + strings.Repeat(", "+row, to-from-1) + ") ")
	args = make([]any, 0, (to-from)*len(columns))
	for i := from; i < to; i++ {
		for _, c := range columns {
			args = append(args, c.value(i))
		}
	}
	return b.String(), args
}
