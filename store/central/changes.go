package central

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"partneredge/store"
)

const (
	changesDefault = 1000
	changesMost    = 10_000
)

// changed notes a change, to be numbered when the transaction ends. The same
// change twice in one transaction is one.
func (t *tx) changed(kind store.ChangeKind, ref string, gone bool) {
	c := store.Change{Kind: kind, Ref: ref, Gone: gone}
	if !slices.Contains(t.changes, c) {
		t.changes = append(t.changes, c)
	}
}

// writeChanges numbers the changes. The counter's row stays locked until the
// commit, so numbers rise in the order of commit, and who sees one has seen
// all before it.
func (t *tx) writeChanges(ctx context.Context) error {
	n := len(t.changes)
	if n == 0 {
		return nil
	}
	var last int64
	if err := t.one(ctx, `UPDATE change_counter SET seq = seq + ? RETURNING seq`, []any{n}, &last); err != nil {
		return fmt.Errorf("number changes: %w", err)
	}
	kinds, refs := make([]string, n), make([]string, n)
	seqs, gone := make([]int64, n), make([]int64, n)
	for i := range t.changes {
		c := &t.changes[i]
		c.Seq = last - int64(n-1-i)
		seqs[i], kinds[i], refs[i], gone[i] = c.Seq, string(c.Kind), c.Ref, bit(c.Gone)
	}
	if _, err := t.bulk(ctx, `INSERT INTO changes (seq, kind, ref, gone) SELECT seq, kind, ref, gone FROM v`,
		column{name: "seq", ints: seqs}, column{name: "kind", text: kinds},
		column{name: "ref", text: refs}, column{name: "gone", ints: gone}); err != nil {
		return fmt.Errorf("write changes: %w", err)
	}
	return nil
}

// ChangesSince reads the changes after seq in order, at most limit of them (0:
// 1000, at most 10 000), and the number of the last change there is. reset says
// that seq is older than what is kept, or not a number this database gave: the
// caller then knows nothing of what has changed.
func (db *DB) ChangesSince(ctx context.Context, seq int64, limit int) (changes []store.Change, latest int64, reset bool, err error) {
	const tried = "read changes"
	switch {
	case limit <= 0:
		limit = changesDefault
	case limit > changesMost:
		limit = changesMost
	}
	rows, err := db.query(ctx, `SELECT l.seq, (SELECT coalesce(min(seq), l.seq + 1) FROM changes), c.seq, c.kind, c.ref, c.gone
		FROM change_counter l
		LEFT JOIN (SELECT seq, kind, ref, gone FROM changes WHERE seq > ? ORDER BY seq LIMIT ?) c ON true
		ORDER BY c.seq`, seq, limit)
	if err != nil {
		return nil, 0, false, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var oldest int64
		var n sql.NullInt64
		var kind, ref sql.NullString
		var gone sql.NullBool
		if err := rows.Scan(&latest, &oldest, &n, &kind, &ref, &gone); err != nil {
			return nil, 0, false, db.fail(tried, err)
		}
		if reset = seq > latest || seq < oldest-1; reset {
			changes = nil
			continue
		}
		if n.Valid {
			changes = append(changes, store.Change{Seq: n.Int64, Kind: store.ChangeKind(kind.String), Ref: ref.String, Gone: gone.Bool})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, false, db.fail(tried, err)
	}
	return changes, latest, reset, nil
}

// PruneChanges forgets all changes but the last keep.
func (db *DB) PruneChanges(ctx context.Context, keep int) error {
	if keep < 0 {
		return db.fail("prune changes", invalid("keep is negative"))
	}
	return db.fail("prune changes", db.apart(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `DELETE FROM changes WHERE seq <= (SELECT seq FROM change_counter) - ?`, keep)
		return err
	}))
}
