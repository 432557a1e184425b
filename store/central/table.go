package central

import (
	"context"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// table describes how the records of one kind are read.
type table[T any] struct {
	noun    string // for one of them, in errors
	from    string
	id      string // column
	columns string
	scan    func(db.Row) (T, error)
}

// get reads the record with an id; sql.ErrNoRows when there is none.
func (k table[T]) get(ctx context.Context, q db.Querier, id string) (T, error) {
	return db.One(ctx, q, k.scan, `SELECT `+k.columns+` FROM `+k.from+` WHERE `+k.id+` = ?`, id)
}

// some reads the records of which a condition holds.
func (k table[T]) some(ctx context.Context, q db.Querier, condition string, args ...any) ([]T, error) {
	return db.All(ctx, q, k.scan, `SELECT `+k.columns+` FROM `+k.from+` WHERE `+condition, args...)
}

// read is get for a caller of the package.
func (k table[T]) read(ctx context.Context, d *DB, id string) (record T, err error) {
	if err = valid.Reference(k.noun, id); err == nil {
		record, err = k.get(ctx, d.db, id)
	}
	return record, db.Fail("read "+k.noun, err)
}

// list reads a page of all records, newest first.
func (k table[T]) list(ctx context.Context, d *DB, p store.Page) ([]T, string, error) {
	l := db.Listing[T]{Table: k.from, Columns: k.columns, Scan: k.scan, Name: k.from + "\x00\x00"}
	items, next, err := l.Page(ctx, d.db, p)
	return items, next, db.Fail("list "+k.noun+"s", err)
}

// listOf reads a page of an account's records, newest first.
func (k table[T]) listOf(ctx context.Context, d *DB, account string, p store.Page) ([]T, string, error) {
	tried := "list " + k.noun + "s"
	if err := valid.Reference("account", account); err != nil {
		return nil, "", db.Fail(tried, err)
	}
	l := db.Listing[T]{
		Table: k.from, Columns: k.columns, Scan: k.scan,
		Name: k.from + "\x00" + account + "\x00", Column: "account_id", Value: account,
	}
	items, next, err := l.Page(ctx, d.db, p)
	if err == nil && len(items) == 0 {
		err = d.mustHaveAccount(ctx, account)
	}
	return items, next, db.Fail(tried, err)
}

// revoke sets the time of revocation of a record, for good. changed is false when
// it was revoked before.
func revoke[T any](ctx context.Context, d *DB, k table[T], id string, revokedAt func(*T) *time.Time) (record T, changed bool, err error) {
	err = d.write(ctx, "revoke "+k.noun, valid.Reference(k.noun, id), func(ctx context.Context, t *tx) error {
		touched, err := t.Exec(ctx, `UPDATE `+k.from+` SET revoked_at = ? WHERE id = ? AND revoked_at = 0`, db.Micros(t.Now()), id)
		if err != nil {
			return err
		}
		changed = touched == 1
		if record, err = k.get(ctx, t, id); err != nil || !changed {
			return err
		}
		before := record
		*revokedAt(&before) = time.Time{}
		return t.audited(ctx, k.noun+".revoke", id, before, record)
	})
	record, err = written(record, err)
	return record, changed && err == nil, err
}

// mustHaveAccount returns ErrNotFound when there is no such account.
func (d *DB) mustHaveAccount(ctx context.Context, id string) error {
	var found int
	if err := d.db.QueryRow(ctx, `SELECT 1 FROM accounts WHERE id = ?`, id).Scan(&found); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	return nil
}
