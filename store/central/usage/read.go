package usage

import (
	"context"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const (
	daysOfKey = `SELECT day, CAST(sum(requests) AS BIGINT), CAST(sum(limited) AS BIGINT) FROM key_usage
		WHERE key_id = ? AND day >= ? GROUP BY day ORDER BY day DESC`
	oldest = `SELECT key_id, day, node_id, boot FROM key_usage WHERE day < ? ORDER BY day LIMIT ?`
)

// KeyUsage lists the days since one on which a key was used, the newest first.
func (u *Usage) KeyUsage(ctx context.Context, keyID string, since store.Day) ([]store.KeyDay, error) {
	const op = "read usage of key"
	if err := valid.Reference("key", keyID); err != nil {
		return nil, db.Fail(op, err)
	}
	days, err := db.All(ctx, u.db, func(r db.Row) (d store.KeyDay, err error) {
		err = r.Scan(&d.Day, &d.Requests, &d.Limited)
		return d, err
	}, daysOfKey, keyID, int64(since))
	return days, db.Fail(op, err)
}

// KeyUses returns what each of some keys was used for since a day. Keys that are not
// there are left out.
func (u *Usage) KeyUses(ctx context.Context, ids []string, since store.Day) (map[string]store.KeyUse, error) {
	asked := valid.References(ids)
	uses := make(map[string]store.KeyUse, len(asked))
	if len(asked) == 0 {
		return uses, nil
	}
	err := db.Each(ctx, u.db, func(r db.Row) error {
		var id string
		var use store.KeyUse
		err := r.Scan(&id, db.Time(&use.LastUsedAt), &use.Requests, &use.Limited)
		uses[id] = use
		return err
	}, `SELECT k.id, k.last_used_at,
			(SELECT CAST(coalesce(sum(u.requests), 0) AS BIGINT) FROM key_usage u WHERE u.key_id = k.id AND u.day >= ?),
			(SELECT CAST(coalesce(sum(u.limited), 0) AS BIGINT) FROM key_usage u WHERE u.key_id = k.id AND u.day >= ?)
		FROM keys k WHERE `+u.db.In("k.id"), int64(since), int64(since), u.db.Set(asked))
	return uses, db.Fail("read usage of keys", err)
}

// PruneKeyUsage removes up to limit rows of the days before that of a time, and returns
// how many; call it until that is 0.
func (u *Usage) PruneKeyUsage(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	const op = "prune key_usage"
	if limit <= 0 || before.IsZero() || valid.Times(before) != nil {
		return 0, db.Fail(op, valid.Errorf("time or limit is not set"))
	}
	err = u.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		gone, err := t.Exec(ctx, `DELETE FROM key_usage WHERE (key_id, day, node_id, boot) IN (`+oldest+`)`, int64(store.DayOf(before)), limit)
		removed = int(gone)
		return err
	})
	return removed, db.Fail(op, err)
}
