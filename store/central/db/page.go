package db

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"partneredge/store"
	"partneredge/store/valid"
)

const pageDefault = 50

// PageLimit returns how many records a page has: 50 where p does not say, and
// at most store.MaxPage.
func PageLimit(p store.Page) int {
	if p.Limit <= 0 {
		return pageDefault
	}
	return min(p.Limit, store.MaxPage)
}

// Cursor makes the cursor of a list: the place where a page ended, a dot, and in
// eight hex digits the CRC-32 of the list's name and the place. So another list's
// cursor is refused, and not taken for some place in this one.
func Cursor(list, place string) string {
	return fmt.Sprintf("%s.%08x", place, crc32.ChecksumIEEE([]byte(list+"\x00"+place)))
}

// Place returns the place in a cursor that Cursor has made for the list.
func Place(list, cursor string) (place string, err error) {
	at := strings.LastIndexByte(cursor, '.')
	if at < 0 || Cursor(list, cursor[:at]) != cursor || !valid.Text(cursor) {
		return "", valid.Errorf("cursor")
	}
	return cursor[:at], nil
}

// Listing lists rows of a table that has a number n, rising with each row, by
// pages, newest first. A row that comes in while a caller turns pages is before
// the first of them, so none that was there is seen twice or left out.
type Listing[T any] struct {
	Table   string
	Columns string
	Scan    func(Row) (T, error)
	// Name of the list in its cursors.
	Name string
	// Column that must have the value Value; "": all rows.
	Column, Value string
	// Where is a further condition, with its parameters; "": none.
	Where string
	Args  []any
}

// Page reads a page, with the cursor of the next, "" at the end.
func (l Listing[T]) Page(ctx context.Context, q Querier, p store.Page) ([]T, string, error) {
	before := int64(math.MaxInt64)
	if p.Cursor != "" {
		place, err := Place(l.Name, p.Cursor)
		if err != nil {
			return nil, "", err
		}
		if before, err = strconv.ParseInt(place, 36, 64); err != nil {
			return nil, "", valid.Errorf("cursor")
		}
	}
	where, args := "n < ?", []any{before}
	if l.Column != "" {
		where, args = l.Column+" = ? AND n < ?", []any{l.Value, before}
	}
	if l.Where != "" {
		where, args = where+" AND "+l.Where, append(args, l.Args...)
	}
	limit := PageLimit(p)
	var numbers []int64
	items, err := All(ctx, q, func(row Row) (T, error) {
		var n int64
		record, err := l.Scan(Leading(row, &n))
		numbers = append(numbers, n)
		return record, err
	}, `SELECT n, `+l.Columns+` FROM `+l.Table+` WHERE `+where+` ORDER BY n DESC LIMIT ?`, append(args, limit+1)...)
	if err != nil || len(items) <= limit {
		return items, "", err
	}
	return items[:limit], Cursor(l.Name, strconv.FormatInt(numbers[limit-1], 36)), nil
}
