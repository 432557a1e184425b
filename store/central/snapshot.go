package central

import (
	"database/sql"
	"strings"
)

// What nodes keep is read together with the number of the last change that it
// takes in, in one statement, which both databases answer from one snapshot.

// seen is a record as a snapshot has it.
type seen[T any] struct {
	seq    int64
	found  bool
	record T
}

// scanSeen reads "seq, found, record's columns", of which the last are NULL
// when nothing was found.
func scanSeen[T any](row scanner, columns int, scan func(scanner) (T, error)) (s seen[T], err error) {
	discard := make([]any, columns)
	for i := range discard {
		discard[i] = new(any)
	}
	if err := row.Scan(append([]any{&s.seq, &s.found}, discard...)...); err != nil || !s.found {
		return s, err
	}
	s.record, err = scan(leading{row, []any{new(any), new(any)}})
	return s, err
}

// leading is a row whose first columns are read into before.
type leading struct {
	scanner
	before []any
}

// Scan reads what leads, then the record.
func (r leading) Scan(dest ...any) error {
	return r.scanner.Scan(append(r.before[:len(r.before):len(r.before)], dest...)...)
}

func columnNames(columns string) []string {
	names := strings.Split(columns, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// prefixed names every column by its table.
func prefixed(table, columns string) string {
	return table + "." + strings.Join(columnNames(columns), ", "+table+".")
}

// only reads the one row of a query; sql.ErrNoRows when there is none.
func only[T any](rows *sql.Rows, scan func(scanner) (T, error)) (record T, err error) {
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return record, err
		}
		return record, sql.ErrNoRows
	}
	if record, err = scan(rows); err != nil {
		return record, err
	}
	return record, rows.Close()
}
