package central

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const (
	changesDefault = 1000
	changesMost    = 10_000
)

// writeChanges numbers the changes. The counter's row stays locked until the
// commit, so numbers rise in the order of commit, and who sees one has seen
// all before it.
func (t *tx) writeChanges(ctx context.Context) error {
	n := len(t.changes)
	if n == 0 {
		return nil
	}
	last, moved, err := t.raiseCounter(ctx, n)
	if err == nil && moved {
		if _, err = t.breakHistory(ctx); err == nil {
			last, _, err = t.raiseCounter(ctx, n)
		}
	}
	if err != nil {
		return fmt.Errorf("number changes: %w", err)
	}
	for i := range t.changes {
		t.changes[i].Seq = last - int64(n-1-i)
	}
	return insertChanges.Run(ctx, t.Tx, t.changes)
}

// raiseCounter returns the last of n new numbers, and whether the database has
// moved to another timeline than that of its history.
func (t *tx) raiseCounter(ctx context.Context, n int) (last int64, moved bool, err error) {
	err = t.Get(ctx, `UPDATE change_counter SET seq = seq + ? RETURNING seq, `+t.moved(), []any{n}, &last, &moved)
	return last, moved, err
}

var insertChanges = db.Insert("changes", "seq, kind, ref, gone", func(c store.Change) []any {
	return []any{c.Seq, string(c.Kind), c.Ref, db.Bit(c.Gone)}
})

// Position is a place in the changes.
type Position struct {
	History string // that Seq is a number of; "" unknown
	Seq     int64  // of the last change known
}

// ChangeLog is a part of the changes, in order.
type ChangeLog struct {
	Changes []store.Change
	Latest  int64  // number of the last change there is
	History string // that the numbers are of
	// Reset: the position asked about is older than what is kept, or not one that
	// this database gave, so what has changed since is not known.
	Reset bool
}

// ChangesSince reads the changes after a position, at most limit of them (0: 1000,
// at most 10 000).
func (d *DB) ChangesSince(ctx context.Context, from Position, limit int) (log ChangeLog, err error) {
	const op = "read changes"
	log, moved, err := d.changesSince(ctx, from, limit)
	if err == nil && moved {
		if err = d.write(ctx, op, nil, followTimeline); err == nil {
			log, _, err = d.changesSince(ctx, from, limit)
		}
	}
	if err != nil {
		return ChangeLog{}, db.Fail(op, err)
	}
	return log, nil
}

func (d *DB) changesSince(ctx context.Context, from Position, limit int) (log ChangeLog, moved bool, err error) {
	if limit <= 0 {
		limit = changesDefault
	}
	err = db.Each(ctx, d.db, func(row db.Row) error {
		var oldest int64
		var known bool
		var n sql.NullInt64
		var kind, ref sql.NullString
		var gone sql.NullBool
		err := row.Scan(&log.Latest, &log.History, &moved, &known, &oldest, &n, &kind, &ref, &gone)
		if log.Reset = from.History != "" && !known || from.Seq > log.Latest || from.Seq < oldest-1; n.Valid && !log.Reset {
			log.Changes = append(log.Changes, store.Change{Seq: n.Int64, Kind: store.ChangeKind(kind.String), Ref: ref.String, Gone: gone.Bool})
		}
		return err
	}, `SELECT l.seq, l.history, l.timeline <> `+d.db.Timeline("l.timeline")+`,
			l.history = ? OR EXISTS (SELECT 1 FROM histories WHERE id = ? AND latest >= ?),
			(SELECT coalesce(min(seq), l.seq + 1) FROM changes), c.seq, c.kind, c.ref, c.gone
		FROM change_counter l
		LEFT JOIN (SELECT seq, kind, ref, gone FROM changes WHERE seq > ? ORDER BY seq LIMIT ?) c ON true
		WHERE l.one = 1 -- or PostgreSQL takes it for many rows, and compiles the query, which takes 150 ms
		ORDER BY c.seq`, from.History, from.History, from.Seq, from.Seq, min(limit, changesMost))
	return log, moved, err
}

// PruneChanges removes all changes but the last keep.
func (d *DB) PruneChanges(ctx context.Context, keep int) error {
	const op = "prune changes"
	if keep < 0 {
		return db.Fail(op, valid.Errorf("keep is negative"))
	}
	return db.Fail(op, d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, `DELETE FROM changes WHERE seq <= (SELECT seq FROM change_counter) - ?`, keep)
		return err
	}))
}

// historiesKept bounds the histories that the present one is known to go on from.
const historiesKept = 1000

// continueHistory begins a history where the one before ends, so that whoever has
// followed that one further than this database knows it, as happens when a file is
// copied back, is told to begin afresh. All others go on.
func continueHistory(ctx context.Context, t *tx) error {
	var history string
	var latest int64
	var moved bool
	if err := t.Get(ctx, t.ForUpdate(`SELECT history, seq, timeline <> '' AND `+t.moved()+` FROM change_counter`), nil, &history, &latest, &moved); err != nil {
		return err
	}
	if moved {
		_, err := t.breakHistory(ctx)
		return err
	}
	if history != "" {
		if _, err := t.Exec(ctx, `INSERT INTO histories VALUES (?, ?)`, history, latest); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM histories WHERE id <= (SELECT id FROM histories ORDER BY id DESC LIMIT 1 OFFSET ?)`, historiesKept); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, `UPDATE change_counter SET history = ?, timeline = `+t.Timeline("timeline"), newHistory(t.Now()))
	return err
}

func newHistory(now time.Time) string { return store.NewID("his", now) }

// moved is the condition that the database has moved to another timeline than that
// of its history: it may lack what was written last before, and its numbers too.
func (t *tx) moved() string { return `timeline <> ` + t.Timeline("timeline") }

// followTimeline breaks the history off if the database has moved to another
// timeline. Of many who find it moved, one does.
func followTimeline(ctx context.Context, t *tx) error {
	var moved bool
	if err := t.Get(ctx, t.ForUpdate(`SELECT `+t.moved()+` FROM change_counter`), nil, &moved); err != nil || !moved {
		return err
	}
	_, err := t.breakHistory(ctx)
	return err
}

// renumberedAhead counts the numbers that are left out where the clock is behind them.
const renumberedAhead = 1 << 32

// breakHistory begins a history that goes on from none, since the database may lack
// changes that nodes have seen: every node finds itself behind, whatever number it
// has followed to, and asks for all it holds again. Numbers go on from the time in
// microseconds, which none that was given before reaches, also where the same copy
// is put back twice. A float64, as metrics are, holds them until the year 2255.
func (t *tx) breakHistory(ctx context.Context) (latest int64, err error) {
	now := t.Now()
	micros := now.UnixMicro()
	if err := t.Get(ctx, `UPDATE change_counter SET seq = CASE WHEN seq < ? THEN ? ELSE seq + ? END, history = ?, timeline = `+
		t.Timeline("timeline")+` RETURNING seq`, []any{micros, micros, int64(renumberedAhead), newHistory(now)}, &latest); err != nil {
		return 0, err
	}
	if _, err := t.Exec(ctx, `DELETE FROM changes`); err != nil {
		return 0, err
	}
	if _, err := t.Exec(ctx, `DELETE FROM histories`); err != nil {
		return 0, err
	}
	t.log.Warn("the database was put back, or another server took over: every node asks for all it holds again; "+
		"what was written last before may be lost", "change", latest)
	return latest, nil
}

// Restored makes a database that was put back from a copy safe to follow.
func (d *DB) Restored(ctx context.Context) error {
	return d.write(ctx, "number changes after a restore", nil, func(ctx context.Context, t *tx) error {
		latest, err := t.breakHistory(ctx)
		if err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "database.restore", After: map[string]int64{"change": latest}})
	})
}
