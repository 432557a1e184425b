package db

import (
	"context"

	"partneredge/store"
	"partneredge/store/valid"
)

// Table describes how the records of one kind are read.
type Table[T any] struct {
	Noun    string // for one of them, in errors
	From    string
	ID      string // column
	Columns string
	Scan    func(Row) (T, error)
}

// Get reads the record with an id; sql.ErrNoRows when there is none.
func (k Table[T]) Get(ctx context.Context, q Querier, id string) (T, error) {
	return One(ctx, q, k.Scan, `SELECT `+k.Columns+` FROM `+k.From+` WHERE `+k.ID+` = ?`, id)
}

// Some reads the records of which a condition holds.
func (k Table[T]) Some(ctx context.Context, q Querier, condition string, args ...any) ([]T, error) {
	return All(ctx, q, k.Scan, `SELECT `+k.Columns+` FROM `+k.From+` WHERE `+condition, args...)
}

// Read is Get for a caller of the store.
func (k Table[T]) Read(ctx context.Context, q Querier, id string) (record T, err error) {
	if err = valid.Reference(k.Noun, id); err == nil {
		record, err = k.Get(ctx, q, id)
	}
	return record, Fail("read "+k.Noun, err)
}

// List reads a page of all records, newest first.
func (k Table[T]) List(ctx context.Context, q Querier, p store.Page) ([]T, string, error) {
	l := Listing[T]{Table: k.From, Columns: k.Columns, Scan: k.Scan, Name: k.From + "\x00\x00"}
	items, next, err := l.Page(ctx, q, p)
	return items, next, Fail("list "+k.Noun+"s", err)
}
