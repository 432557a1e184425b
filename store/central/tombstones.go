package central

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

var tombstoneTable = table[store.Tombstone]{noun: "tombstone", from: "tombstones", id: "id", columns: `id, deleted_at`, scan: scanTombstone}

func scanTombstone(row db.Row) (s store.Tombstone, err error) {
	err = row.Scan(&s.ID, db.Time(&s.DeletedAt))
	return s, err
}

// bury keeps a lead or an account that was deleted from coming back.
func (t *tx) bury(ctx context.Context, id string, at time.Time) error {
	_, err := t.Exec(ctx, `INSERT INTO tombstones (id, deleted_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`, id, db.Micros(at))
	return err
}

// buried returns which of some ids are those of deleted leads or accounts.
func (t *tx) buried(ctx context.Context, ids []string) (map[string]bool, error) {
	found, err := t.Strings(ctx, `SELECT id FROM tombstones WHERE `+t.In("id"), t.Set(ids))
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool, len(found))
	for _, id := range found {
		all[id] = true
	}
	return all, nil
}

// Tombstones lists the leads and accounts that were deleted, the last first.
func (d *DB) Tombstones(ctx context.Context, p store.Page) ([]store.Tombstone, string, error) {
	return tombstoneTable.list(ctx, d, p)
}

// Bury deletes a lead or an account again, where a backup or a node has brought it
// back, and keeps it from coming back. A time that is not set is now. The same again
// is nil.
func (d *DB) Bury(ctx context.Context, s store.Tombstone) (store.Tombstone, error) {
	s.DeletedAt = db.TimeOr(s.DeletedAt, d.db.Now())
	refused := errors.Join(valid.IDs("id", s.ID), valid.Times(s.DeletedAt))
	remove := func(ctx context.Context, t *tx) error { return t.bury(ctx, s.ID, s.DeletedAt) }
	switch {
	case refused != nil:
	case strings.HasPrefix(s.ID, "lead_"):
		remove = func(ctx context.Context, t *tx) error {
			if _, err := t.removeLead(ctx, s.ID, s.DeletedAt); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			return nil
		}
	case strings.HasPrefix(s.ID, "acc_"):
		if _, err := d.EraseAccount(ctx, s.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Tombstone{}, db.Fail("bury", err)
		}
	default:
		refused = valid.Errorf("a tombstone's id begins with lead_ or acc_")
	}
	return written(s, d.write(ctx, "bury", refused, func(ctx context.Context, t *tx) error {
		if err := remove(ctx, t); err != nil {
			return err
		}
		var err error
		s, err = tombstoneTable.get(ctx, t, s.ID)
		return err
	}))
}
