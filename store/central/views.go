package central

import (
	"context"
	"math"
	"time"

	"partneredge/store"
)

// Views are what a node keeps of an account. Each is read with seq, the number
// of the last change that it takes in. ErrNotFound when there is no such
// account.

const (
	insightsMost = 50
	firingsMost  = 100
)

// viewRows reads seq, whether the account is there, a flag, and the rows.
func viewRows[T any](ctx context.Context, db *DB, tried, query string, args []any, columns int, scan func(scanner) (T, error)) (items []T, flag bool, seq int64, err error) {
	rows, err := db.query(ctx, query, args...)
	if err != nil {
		return nil, false, 0, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	known := false
	items = []T{}
	for rows.Next() {
		row, err := scanSeen(leading{rows, []any{&known, &flag}}, columns, func(row scanner) (T, error) { return scan(row) })
		if err != nil {
			return nil, false, 0, db.fail(tried, err)
		}
		seq = row.seq
		if row.found {
			items = append(items, row.record)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, 0, db.fail(tried, err)
	}
	if !known {
		return nil, false, seq, db.fail(tried, store.ErrNotFound)
	}
	return items, flag, seq, nil
}

// Insights reads the insights of an account created after since (zero: all),
// newest first, at most limit (0 or more than 50: 50). history tells whether
// the account ever had one.
func (db *DB) Insights(ctx context.Context, accountID string, since time.Time, limit int) (items []store.Insight, history bool, seq int64, err error) {
	const tried = "read insights"
	if err := mustBeText("account", accountID); err != nil {
		return nil, false, 0, db.fail(tried, err)
	}
	if limit <= 0 || limit > insightsMost {
		limit = insightsMost
	}
	after := int64(math.MinInt64)
	if !since.IsZero() {
		after = since.UnixMicro()
	}
	return viewRows(ctx, db, tried, `SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?),
			EXISTS (SELECT 1 FROM insights WHERE account_id = ?),
			c.seq, i.id IS NOT NULL, i.id, i.account_id, i.headline, i.detail, i.created_at
		FROM change_counter c LEFT JOIN (
			SELECT id, account_id, headline, detail, created_at FROM insights
			WHERE account_id = ? AND created_at > ? ORDER BY created_at DESC LIMIT ?) i ON true
		ORDER BY i.created_at DESC`,
		[]any{accountID, accountID, accountID, after, limit}, 5,
		func(row scanner) (i store.Insight, err error) {
			err = row.Scan(&i.ID, &i.AccountID, &i.Headline, &i.Detail, asTime(&i.CreatedAt))
			return i, err
		})
}

// Firings reads the firings of an account triggered before before (zero: all),
// newest first, at most limit (0 or more than 100: 100). more tells whether
// there are older ones than the last.
func (db *DB) Firings(ctx context.Context, accountID string, before time.Time, limit int) (items []store.Firing, more bool, seq int64, err error) {
	const tried = "read firings"
	if err := mustBeText("account", accountID); err != nil {
		return nil, false, 0, db.fail(tried, err)
	}
	if limit <= 0 || limit > firingsMost {
		limit = firingsMost
	}
	until := int64(math.MaxInt64)
	if !before.IsZero() {
		until = before.UnixMicro()
	}
	items, _, seq, err = viewRows(ctx, db, tried, `SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?), false,
			c.seq, f.id IS NOT NULL, f.id, f.account_id, f.name, f.triggered_at, f.data, f.action
		FROM change_counter c LEFT JOIN (
			SELECT id, account_id, name, triggered_at, data, action FROM firings
			WHERE account_id = ? AND triggered_at < ? ORDER BY triggered_at DESC LIMIT ?) f ON true
		ORDER BY f.triggered_at DESC`,
		[]any{accountID, accountID, until, limit + 1}, 6,
		func(row scanner) (f store.Firing, err error) {
			var data string
			err = row.Scan(&f.ID, &f.AccountID, &f.Name, asTime(&f.TriggeredAt), &data, &f.Action)
			f.Data = []byte(data)
			return f, err
		})
	if len(items) > limit {
		return items[:limit], true, seq, err
	}
	return items, false, seq, err
}

// Profile reads an account with its agent.
func (db *DB) Profile(ctx context.Context, accountID string) (a store.Account, seq int64, err error) {
	const tried = "read profile"
	if err := mustBeText("account", accountID); err != nil {
		return a, 0, db.fail(tried, err)
	}
	rows, err := db.query(ctx, `SELECT c.seq, a.id IS NOT NULL, `+accountColumns+`
		FROM change_counter c LEFT JOIN (`+accountTable+`) ON a.id = ?`, accountID)
	if err != nil {
		return a, 0, db.fail(tried, err)
	}
	row, err := only(rows, func(row scanner) (seen[store.Account], error) {
		return scanSeen(row, len(columnNames(accountColumns)), scanAccount)
	})
	if err == nil && !row.found {
		err = store.ErrNotFound
	}
	return row.record, row.seq, db.fail(tried, err)
}
