package central

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	"partneredge/store"
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
	var last int64
	if err := t.Get(ctx, `UPDATE change_counter SET seq = seq + ? RETURNING seq`, []any{n}, &last); err != nil {
		return fmt.Errorf("number changes: %w", err)
	}
	for i := range t.changes {
		t.changes[i].Seq = last - int64(n-1-i)
	}
	return insertChanges.Run(ctx, t.Tx, t.changes)
}

var insertChanges = db.Insert("changes", "seq, kind, ref, gone", func(c store.Change) []any {
	return []any{c.Seq, string(c.Kind), c.Ref, db.Bit(c.Gone)}
})

// ChangeLog is a part of the changes, in order.
type ChangeLog struct {
	Changes []store.Change
	Latest  int64 // number of the last change there is
	// Reset: the number asked about is older than what is kept, or not one that
	// this database gave, so what has changed since is not known.
	Reset bool
}

// ChangesSince reads the changes after seq, at most limit of them (0: 1000, at
// most 10 000).
func (d *DB) ChangesSince(ctx context.Context, seq int64, limit int) (log ChangeLog, err error) {
	if limit <= 0 {
		limit = changesDefault
	}
	_, err = db.All(ctx, d.db, func(row db.Row) (struct{}, error) {
		var oldest int64
		var n sql.NullInt64
		var kind, ref sql.NullString
		var gone sql.NullBool
		err := row.Scan(&log.Latest, &oldest, &n, &kind, &ref, &gone)
		if log.Reset = seq > log.Latest || seq < oldest-1; n.Valid && !log.Reset {
			log.Changes = append(log.Changes, store.Change{Seq: n.Int64, Kind: store.ChangeKind(kind.String), Ref: ref.String, Gone: gone.Bool})
		}
		return struct{}{}, err
	}, `SELECT l.seq, (SELECT coalesce(min(seq), l.seq + 1) FROM changes), c.seq, c.kind, c.ref, c.gone
		FROM change_counter l
		LEFT JOIN (SELECT seq, kind, ref, gone FROM changes WHERE seq > ? ORDER BY seq LIMIT ?) c ON true
		ORDER BY c.seq`, seq, min(limit, changesMost))
	if err != nil {
		return ChangeLog{}, db.Fail("read changes", err)
	}
	return log, nil
}

// PruneChanges removes all changes but the last keep.
func (d *DB) PruneChanges(ctx context.Context, keep int) error {
	const tried = "prune changes"
	if keep < 0 {
		return db.Fail(tried, valid.Errorf("keep is negative"))
	}
	return db.Fail(tried, d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, `DELETE FROM changes WHERE seq <= (SELECT seq FROM change_counter) - ?`, keep)
		return err
	}))
}

// restoredAhead is how many numbers of changes Restored leaves out: more than any
// database gives between a copy and its loss, and few enough for two million
// restores before a number is no float64 any more, as metrics are.
const restoredAhead = 1 << 32

// Restored makes a database that was put back from a copy safe to follow. Nodes
// have seen changes that the copy does not know; numbers that were given again
// would name others, which a node that is ahead would take for those it has
// seen. So numbering goes on far ahead of all that were given, and nothing
// before is known: every node finds itself behind and asks for all it holds
// again.
func (d *DB) Restored(ctx context.Context) error {
	return d.write(ctx, "number changes after a restore", nil, func(ctx context.Context, t *tx) error {
		var last int64
		if err := t.Get(ctx, `UPDATE change_counter SET seq = seq + ? RETURNING seq`, []any{int64(restoredAhead)}, &last); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM changes`); err != nil {
			return err
		}
		return t.audited(ctx, "database.restore", "", nil, map[string]int64{"change": last})
	})
}

// Commit describes a committed transaction by what it leaves for others to do.
type Commit struct {
	Changes    []store.Change // for nodes, in order of Seq
	Deliveries int            // due at once and claimed by nobody
	Rollouts   bool           // a rollout was added or stepped, so nodes may have other releases to run
}

func (c Commit) empty() bool { return len(c.Changes) == 0 && c.Deliveries == 0 && !c.Rollouts }

// commits calls subscribers after each commit. Its zero value has none.
type commits struct {
	mu          sync.RWMutex
	subscribers []*func(Commit)
}

func (c *commits) publish(commit Commit) {
	if commit.empty() {
		return
	}
	c.mu.RLock()
	subscribers := c.subscribers
	c.mu.RUnlock()
	for _, fn := range subscribers {
		(*fn)(commit)
	}
}

// OnCommit calls fn after each commit of this process that leaves something for
// others to do, one commit after the other in their order, until unsubscribe is
// called. The call of fn comes before the write itself returns, and no other
// write goes on meanwhile, so fn must return at once and must not call the DB.
// One more call of fn may be under way when unsubscribe returns.
func (d *DB) OnCommit(fn func(Commit)) (unsubscribe func()) {
	c := &d.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(slices.Clone(c.subscribers), &fn)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.subscribers = slices.DeleteFunc(slices.Clone(c.subscribers), func(other *func(Commit)) bool { return other == &fn })
	}
}
