package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"partneredge/store"
)

const rolloutColumns = `revision, record`

func scanRollout(row scanner) (r store.Rollout, err error) {
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
// before, until it says otherwise. The id is made and its times are now.
// ErrConflict while another is under way.
func (db *DB) AddRollout(ctx context.Context, r store.Rollout) (store.Rollout, error) {
	const tried = "add rollout"
	now := db.now()
	r.ID, r.CreatedAt, r.UpdatedAt, r.Revision = store.NewID("rol", now), now, now, 1
	if err := errors.Join(checkIDs(field{"release", r.Release}, field{"digest", r.Digest}), checkTexts(field{"version", r.Version})); err != nil {
		return store.Rollout{}, db.fail(tried, err)
	}
	err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO rollouts (id, release, active, revision, record) VALUES (?, ?, ?, ?, ?)`,
			r.ID, r.Release, activeColumn(r), r.Revision, jsonText(r)); err != nil {
			return err
		}
		t.rollouts = true
		before := map[string]string{}
		for _, n := range r.Nodes {
			before[n.ID] = n.Before
		}
		if err := t.putNodeReleases(ctx, before); err != nil {
			return err
		}
		return t.audited(ctx, "release.promote", r.Release, nil, r)
	})
	if err != nil {
		return store.Rollout{}, db.fail(tried, err)
	}
	return r, nil
}

// StepRollout writes a rollout down as it is now, if nobody else has since it was
// read; stepped tells whether. What the nodes are to run follows from its state:
// the release once it has settled, what they ran before once that is rolled back.
func (db *DB) StepRollout(ctx context.Context, r store.Rollout) (next store.Rollout, stepped bool, err error) {
	const tried = "step rollout"
	read := r.Revision
	r.UpdatedAt, r.Revision = db.now(), read+1
	err = db.change(ctx, "", func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, `SELECT `+rolloutColumns+` FROM rollouts WHERE id = ?`, r.ID)
		if err != nil {
			return err
		}
		was, err := only(rows, scanRollout)
		if err != nil {
			return err
		}
		touched, err := t.exec(ctx, `UPDATE rollouts SET active = ?, revision = ?, record = ? WHERE id = ? AND revision = ?`,
			activeColumn(r), r.Revision, jsonText(r), r.ID, read)
		if stepped = touched == 1; err != nil || !stepped {
			return err
		}
		t.rollouts = true
		if err := t.settle(ctx, was, r); err != nil {
			return err
		}
		return t.audited(ctx, "release.rollback", r.Release, was, r)
	})
	if err != nil || !stepped {
		return store.Rollout{}, false, db.fail(tried, err)
	}
	return r, true, nil
}

// settle writes down what a rollout's nodes are to run after a step from was.
func (t *tx) settle(ctx context.Context, was, r store.Rollout) error {
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
		if r.Everywhere && r.HadBefore {
			nodes[""] = r.Before
		}
		if r.Everywhere && !r.HadBefore {
			if _, err := t.exec(ctx, `DELETE FROM node_releases WHERE node = ''`); err != nil {
				return err
			}
		}
	}
	return t.putNodeReleases(ctx, nodes)
}

func (t *tx) putNodeReleases(ctx context.Context, digests map[string]string) error {
	for node, digest := range digests {
		if _, err := t.exec(ctx, `INSERT INTO node_releases (node, digest) VALUES (?, ?)
			ON CONFLICT (node) DO UPDATE SET digest = excluded.digest`, node, digest); err != nil {
			return err
		}
	}
	return nil
}

// Rollout reads one rollout.
func (db *DB) Rollout(ctx context.Context, id string) (store.Rollout, error) {
	if err := mustBeText("rollout", id); err != nil {
		return store.Rollout{}, db.fail("read rollout", err)
	}
	r, err := scanRollout(db.queryRow(ctx, `SELECT `+rolloutColumns+` FROM rollouts WHERE id = ?`, id))
	return r, db.fail("read rollout", err)
}

// LastRollout reads the newest rollout; ErrNotFound when there was none.
func (db *DB) LastRollout(ctx context.Context) (store.Rollout, error) {
	r, err := scanRollout(db.queryRow(ctx, `SELECT `+rolloutColumns+` FROM rollouts ORDER BY n DESC LIMIT 1`))
	return r, db.fail("read last rollout", err)
}

// Rollouts lists all rollouts, newest first.
func (db *DB) Rollouts(ctx context.Context, p store.Page) ([]store.Rollout, string, error) {
	l := listing[store.Rollout]{table: "rollouts", columns: rolloutColumns, scan: scanRollout}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list rollouts", err)
}

// NodeReleases reads what each node is to run, by id, and under "" what all
// others are. A node that is in neither runs what it likes.
func (db *DB) NodeReleases(ctx context.Context) (map[string]string, error) {
	const tried = "read what nodes run"
	rows, err := db.query(ctx, `SELECT node, digest FROM node_releases`)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	all := map[string]string{}
	for rows.Next() {
		var node, digest string
		if err := rows.Scan(&node, &digest); err != nil {
			return nil, db.fail(tried, err)
		}
		all[node] = digest
	}
	return all, db.fail(tried, rows.Err())
}
