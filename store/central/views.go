package central

import (
	"context"
	"math"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// What a node keeps of an account is read together with the number of the last
// change that it takes in, in one statement, which both databases answer from one
// snapshot.

const (
	insightsMost = 50
	firingsMost  = 100
)

// InsightsView holds insights of an account, newest first.
type InsightsView struct {
	Items   []store.Insight
	History bool  // whether the account ever had one
	Seq     int64 // of the last change that the view takes in
}

// FiringsView holds firings of an account, newest first.
type FiringsView struct {
	Items []store.Firing
	More  bool  // whether there are older ones than the last
	Seq   int64 // of the last change that the view takes in
}

var (
	insightTable = db.Table[store.Insight]{From: "insights", Columns: `id, account_id, headline, detail, created_at`, Scan: scanInsight}
	firingTable  = db.Table[store.Firing]{From: "firings", Columns: `id, account_id, name, triggered_at, data, action`, Scan: scanFiring}
)

func scanInsight(row db.Row) (i store.Insight, err error) {
	err = row.Scan(&i.ID, &i.AccountID, &i.Headline, &i.Detail, db.Time(&i.CreatedAt))
	return i, err
}

func scanFiring(row db.Row) (f store.Firing, err error) {
	err = row.Scan(&f.ID, &f.AccountID, &f.Name, db.Time(&f.TriggeredAt), (*[]byte)(&f.Data), &f.Action)
	return f, err
}

// Insights reads the insights of an account created after since (zero: all),
// at most limit (0 or more than 50: 50). ErrNotFound when there is no such
// account.
func (d *DB) Insights(ctx context.Context, accountID string, since time.Time, limit int) (v InsightsView, err error) {
	if err := valid.Reference("account", accountID); err != nil {
		return v, db.Fail("read insights", err)
	}
	if limit <= 0 || limit > insightsMost {
		limit = insightsMost
	}
	after := int64(math.MinInt64)
	if !since.IsZero() {
		after = since.UnixMicro()
	}
	v.Items, err = readView(ctx, d, insightTable, []any{&v.Seq, &v.History},
		`SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?), c.seq,
			EXISTS (SELECT 1 FROM insights WHERE account_id = ?) OR EXISTS (SELECT 1 FROM accounts WHERE id = ? AND coached = 1),
			i.id IS NOT NULL, `+db.Prefixed("i", insightTable.Columns)+`
		FROM change_counter c LEFT JOIN (
			SELECT `+insightTable.Columns+` FROM insights
			WHERE account_id = ? AND created_at > ? ORDER BY created_at DESC LIMIT ?) i ON true
		ORDER BY i.created_at DESC`, accountID, accountID, accountID, accountID, after, limit)
	return v, db.Fail("read insights", err)
}

// Firings reads the firings of an account triggered before before (zero: all),
// at most limit (0 or more than 100: 100). ErrNotFound when there is no such
// account.
func (d *DB) Firings(ctx context.Context, accountID string, before time.Time, limit int) (v FiringsView, err error) {
	if err := valid.Reference("account", accountID); err != nil {
		return v, db.Fail("read firings", err)
	}
	if limit <= 0 || limit > firingsMost {
		limit = firingsMost
	}
	until := int64(math.MaxInt64)
	if !before.IsZero() {
		until = before.UnixMicro()
	}
	v.Items, err = readView(ctx, d, firingTable, []any{&v.Seq},
		`SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?), c.seq, f.id IS NOT NULL, `+db.Prefixed("f", firingTable.Columns)+`
		FROM change_counter c LEFT JOIN (
			SELECT `+firingTable.Columns+` FROM firings
			WHERE account_id = ? AND triggered_at < ? ORDER BY triggered_at DESC LIMIT ?) f ON true
		ORDER BY f.triggered_at DESC`, accountID, accountID, until, limit+1)
	if v.More = len(v.Items) > limit; v.More {
		v.Items = v.Items[:limit]
	}
	return v, db.Fail("read firings", err)
}

// Profile reads an account with its agent. seq is the last change that it takes
// in.
func (d *DB) Profile(ctx context.Context, accountID string) (a store.Account, seq int64, err error) {
	const op = "read profile"
	if err := valid.Reference("account", accountID); err != nil {
		return a, 0, db.Fail(op, err)
	}
	found := false
	a, err = db.One(ctx, d.db, func(row db.Row) (store.Account, error) {
		return scanFound(row, accountTable, &found, &seq)
	}, `SELECT c.seq, a.id IS NOT NULL, `+accountColumns+`
		FROM change_counter c LEFT JOIN (`+accountTable.From+`) ON a.id = ?`, accountID)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return a, seq, db.Fail(op, err)
}

// readView reads the records of an account's view. The query's columns are whether
// the account exists, what leading scans, whether there is a record, and the
// record.
func readView[T any](ctx context.Context, d *DB, k db.Table[T], leading []any, query string, args ...any) ([]T, error) {
	known, found, items := false, false, []T{}
	err := db.Each(ctx, d.db, func(row db.Row) error {
		record, err := scanFound(row, k, &found, append([]any{&known}, leading...)...)
		if err == nil && found {
			items = append(items, record)
		}
		return err
	}, query, args...)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, store.ErrNotFound
	}
	return items, nil
}

// scanFound scans what leads, whether there is a record, and the record, whose
// columns are NULL when there is none.
func scanFound[T any](row db.Row, k db.Table[T], found *bool, leading ...any) (record T, err error) {
	leading = append(leading, found)
	all := leading[:len(leading):len(leading)]
	for range strings.Count(k.Columns, ",") + 1 {
		all = append(all, new(any))
	}
	if err := row.Scan(all...); err != nil || !*found {
		return record, err
	}
	return k.Scan(db.Leading(row, leading...))
}
