package central

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"partneredge/store"
)

const (
	pageDefault = 50
	pageMost    = 200
)

func pageLimit(p store.Page) int {
	switch {
	case p.Limit <= 0:
		return pageDefault
	case p.Limit > pageMost:
		return pageMost
	}
	return p.Limit
}

// mark makes the cursor of a list: the place where a page ended, a dot, and in
// eight hex digits the CRC-32 of both. What is no cursor of this list is then
// refused, and not taken for some other place in it.
func mark(list, place string) string {
	return fmt.Sprintf("%s.%08x", place, crc32.ChecksumIEEE([]byte(list+"\x00"+place)))
}

// unmark reads a cursor that mark has made for the list.
func unmark(list, cursor string) (place string, err error) {
	at := strings.LastIndexByte(cursor, '.')
	if at < 0 || mark(list, cursor[:at]) != cursor || !validText(cursor) {
		return "", invalid("cursor")
	}
	return cursor[:at], nil
}

// numbered is a row whose first column is the number that pages go by.
type numbered struct {
	scanner
	n *int64
}

// Scan reads the number, then the record.
func (r numbered) Scan(dest ...any) error { return r.scanner.Scan(append([]any{r.n}, dest...)...) }

// listing is a list of one table's rows, newest first. A row that comes in
// while a caller turns pages is before the first of them, so none that was there
// is seen twice or left out.
type listing[T any] struct {
	table, columns string
	account        string // only rows of this account; "" all
	target         string // only rows with this target; "" all
	scan           func(scanner) (T, error)
}

func (l listing[T]) page(ctx context.Context, db *DB, p store.Page) ([]T, string, error) {
	before, name := int64(math.MaxInt64), strings.Join([]string{l.table, l.account, l.target}, "\x00")
	if p.Cursor != "" {
		place, err := unmark(name, p.Cursor)
		if err != nil {
			return nil, "", err
		}
		if before, err = strconv.ParseInt(place, 36, 64); err != nil {
			return nil, "", invalid("cursor")
		}
	}
	limit := pageLimit(p)
	where, args := "n < ?", []any{before}
	if l.account != "" {
		where, args = "account_id = ? AND n < ?", []any{l.account, before}
	}
	if l.target != "" {
		where, args = "target = ? AND n < ?", []any{l.target, before}
	}
	rows, err := db.query(ctx, `SELECT n, `+l.columns+` FROM `+l.table+` WHERE `+where+` ORDER BY n DESC LIMIT ?`,
		append(args, limit+1)...)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }()
	items := []T{}
	var last int64
	for rows.Next() {
		if len(items) == limit {
			return items, mark(name, strconv.FormatInt(last, 36)), nil
		}
		item, err := l.scan(numbered{rows, &last})
		if err != nil {
			return nil, "", err
		}
		items = append(items, item)
	}
	if err := rows.Err(); err != nil {
		return nil, "", err
	}
	if len(items) == 0 && l.account != "" {
		return items, "", db.mustHaveAccount(ctx, l.account)
	}
	return items, "", nil
}
