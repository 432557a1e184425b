package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// ErrRolloutUnderWay is the ErrConflict of AddRollout while another rollout has not
// ended.
var ErrRolloutUnderWay = fmt.Errorf("%w: another rollout is under way", store.ErrConflict)

const rolloutColumns = `revision, record`

var rolloutTable = db.Table[store.Rollout]{Noun: "rollout", From: "rollouts", ID: "id", Columns: rolloutColumns, Scan: scanRollout}

func scanRollout(row db.Row) (r store.Rollout, err error) {
	var record string
	var revision int64
	if err = row.Scan(&revision, &record); err != nil {
		return r, err
	}
	if err = json.Unmarshal([]byte(record), &r); err != nil {
		return r, fmt.Errorf("read a rollout's record: %w", err)
	}
	r.Revision = revision
	return r, nil
}

// activeColumn is 1 for a rollout that is under way.
func activeColumn(r store.Rollout) sql.NullInt64 {
	return sql.NullInt64{Int64: 1, Valid: r.State.Active()}
}

// AddRollout begins a rollout: from now on its nodes are to run what they ran
// before, until it says otherwise. That is what was decided for them, and else what r
// says. The id is made and its times are now. ErrRolloutUnderWay while another is.
func (f *Fleet) AddRollout(ctx context.Context, r store.Rollout) (store.Rollout, error) {
	now := f.db.Now()
	r.ID, r.CreatedAt, r.UpdatedAt, r.Revision = store.NewID("rol", now), now, now, 1
	refused := errors.Join(valid.IDs("release", r.Release, "digest", r.Digest), valid.Texts("version", r.Version))
	err := audit.Write(ctx, f.db, "add rollout", refused, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		if err := decideBefore(ctx, t, &r); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO rollouts (id, release, active, revision, record) VALUES (?, ?, ?, ?, ?)`,
			r.ID, r.Release, activeColumn(r), r.Revision, db.JSONText(r)); err != nil {
			return err
		}
		t.Batch.(Batch).RolloutWritten()
		before := map[string]string{}
		for _, n := range r.Nodes {
			before[n.ID] = n.Before
		}
		if err := PutReleases(ctx, t, before); err != nil {
			return err
		}
		return log.Add(ctx, t, audit.Entry{Action: "release.promote", Target: r.Release, After: r})
	})
	if errors.Is(err, store.ErrConflict) { // one row alone may be active
		err = fmt.Errorf("add rollout: %w", ErrRolloutUnderWay)
	}
	return written(r, err)
}

// decideBefore sets what is decided for a rollout's nodes until it begins. A rollout that just
// ends decides that, so its row is waited for.
func decideBefore(ctx context.Context, t *db.Tx, r *store.Rollout) error {
	if _, err := t.Strings(ctx, t.ForUpdate(`SELECT id FROM rollouts ORDER BY n DESC LIMIT 1`)); err != nil {
		return err
	}
	wants, err := nodeReleases(ctx, t)
	if err != nil {
		return err
	}
	r.Before, r.HadBefore = wants[""]
	r.Nodes = slices.Clone(r.Nodes)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if digest, decided := wants[n.ID]; decided {
			n.Before = digest
		} else if r.HadBefore {
			n.Before = r.Before
		}
	}
	return nil
}

// StepRollout writes a rollout down as it is now, if nobody else has since it was
// read; stepped reports whether. What the nodes are to run follows from its state:
// the release once it has settled, what they ran before once that is rolled back.
func (f *Fleet) StepRollout(ctx context.Context, r store.Rollout) (next store.Rollout, stepped bool, err error) {
	read := r.Revision
	r.UpdatedAt, r.Revision = f.db.Now(), read+1
	err = audit.Write(ctx, f.db, "step rollout", nil, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		was, err := rolloutTable.Get(ctx, t, r.ID)
		if err != nil {
			return err
		}
		touched, err := t.Exec(ctx, `UPDATE rollouts SET active = ?, revision = ?, record = ? WHERE id = ? AND revision = ?`,
			activeColumn(r), r.Revision, db.JSONText(r), r.ID, read)
		if stepped = touched == 1; err != nil || !stepped {
			return err
		}
		t.Batch.(Batch).RolloutWritten()
		if err := settle(ctx, t, was, r); err != nil {
			return err
		}
		return log.Add(ctx, t, audit.Entry{Action: "release.rollback", Target: r.Release, Before: was, After: r})
	})
	if err != nil || !stepped {
		return store.Rollout{}, false, err
	}
	return r, true, nil
}

// settle writes down what a rollout's nodes are to run after a step from was.
func settle(ctx context.Context, t *db.Tx, was, r store.Rollout) error {
	nodes := map[string]string{}
	switch {
	case r.State == store.Done && was.State != store.Done:
		for _, n := range r.Nodes {
			nodes[n.ID] = r.Digest
		}
		if r.Everywhere {
			nodes[""] = r.Digest
		}
	case r.State == store.RollingBack && was.State == store.Done:
		for _, n := range r.Nodes {
			nodes[n.ID] = n.Before
		}
		if r.Everywhere {
			// Nodes that were enrolled since run the release by this row. If nothing was
			// decided before, they are told to run their own modules again.
			nodes[""] = r.Before
		}
	}
	return PutReleases(ctx, t, nodes)
}

// PutReleases writes what nodes are to run, in the order of their nodes, so that no two transactions
// wait for each other.
func PutReleases(ctx context.Context, t *db.Tx, digests map[string]string) error {
	nodes := slices.Sorted(maps.Keys(digests))
	return db.Bulk[string]{
		Tried: "write what nodes run", Columns: "node, digest",
		Row: func(node string) []any { return []any{node, digests[node]} },
		Statement: `INSERT INTO node_releases (node, digest) SELECT node, digest FROM v WHERE true
			ON CONFLICT (node) DO UPDATE SET digest = excluded.digest`,
	}.Run(ctx, t, nodes)
}

// Rollout reads one rollout.
func (f *Fleet) Rollout(ctx context.Context, id string) (store.Rollout, error) {
	return rolloutTable.Read(ctx, f.db, id)
}

// LastRollout reads the newest rollout; ErrNotFound when there was none.
func (f *Fleet) LastRollout(ctx context.Context) (store.Rollout, error) {
	r, err := scanRollout(f.db.QueryRow(ctx, `SELECT `+rolloutColumns+` FROM rollouts ORDER BY n DESC LIMIT 1`))
	return r, db.Fail("read last rollout", err)
}

// LastRevision returns the id of the newest rollout and its revision, which rises with
// each step and each change of what nodes are to run; "" when there was none.
func (f *Fleet) LastRevision(ctx context.Context) (id string, revision int64, err error) {
	err = f.db.QueryRow(ctx, `SELECT id, revision FROM rollouts ORDER BY n DESC LIMIT 1`).Scan(&id, &revision)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, revision, db.Fail("read last rollout", err)
}

// Rollouts lists all rollouts, newest first.
func (f *Fleet) Rollouts(ctx context.Context, p store.Page) ([]store.Rollout, string, error) {
	return rolloutTable.List(ctx, f.db, p)
}

// RolloutRevision names a state of a rollout.
type RolloutRevision struct {
	ID     string
	Number int64
}

var revisionTable = db.Table[RolloutRevision]{Noun: "rollout", From: "rollouts", ID: "id", Columns: `id, revision`, Scan: func(row db.Row) (r RolloutRevision, err error) {
	err = row.Scan(&r.ID, &r.Number)
	return r, err
}}

// RolloutRevisions lists rollouts as Rollouts does, without their records, which are long where
// there are many nodes.
func (f *Fleet) RolloutRevisions(ctx context.Context, p store.Page) ([]RolloutRevision, string, error) {
	return revisionTable.List(ctx, f.db, p)
}

// NodeReleases reads what each node is to run, by id, and under "" what all
// others are. A node that is in neither runs what it likes.
func (f *Fleet) NodeReleases(ctx context.Context) (map[string]string, error) {
	all, err := nodeReleases(ctx, f.db)
	return all, db.Fail("read what nodes run", err)
}

func nodeReleases(ctx context.Context, q db.Querier) (map[string]string, error) {
	return db.Map[string, string](ctx, q, `SELECT node, digest FROM node_releases`)
}
