package db

import (
	"context"
	"database/sql"
	"strings"
)

// Row is a row of a query.
type Row interface{ Scan(dest ...any) error }

// Querier reads rows: a DB outside any write, or a Tx.
type Querier interface {
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// One reads the one row of a query; sql.ErrNoRows when there is none.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (record T, err error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return record, err
	}
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

// Column scans a row of one column.
func Column[T any](row Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// Each calls scan with each row of a query.
func Each(ctx context.Context, q Querier, scan func(Row) error, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// All reads the rows of a query. It returns an empty slice, not nil, for none.
func All[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	all := []T{}
	err := Each(ctx, q, func(row Row) error {
		record, err := scan(row)
		all = append(all, record)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Map reads a query of a key and a value column.
func Map[K comparable, V any](ctx context.Context, q Querier, query string, args ...any) (map[K]V, error) {
	all := make(map[K]V)
	err := Each(ctx, q, func(row Row) error {
		var key K
		var value V
		err := row.Scan(&key, &value)
		all[key] = value
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Prefixed puts a table's name before each of a list of columns.
func Prefixed(table, columns string) string {
	names := strings.Fields(strings.ReplaceAll(columns, ",", " "))
	return table + "." + strings.Join(names, ", "+table+".")
}

// Leading returns a row whose first columns are scanned into first, so that the
// rest are those of a record.
func Leading(row Row, first ...any) Row { return leading{row, first} }

type leading struct {
	Row
	first []any
}

// Scan scans what leads, then the record.
func (r leading) Scan(dest ...any) error {
	return r.Row.Scan(append(r.first[:len(r.first):len(r.first)], dest...)...)
}
