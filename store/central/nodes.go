package central

import (
	"context"
	"errors"
	"time"

	"partneredge/store"
)

const nodeColumns = `id, name, region, public_key, created_at, revoked_at, last_seen_at, version`

func scanNode(row scanner) (n store.Node, err error) {
	err = row.Scan(&n.ID, &n.Name, &n.Region, &n.PublicKey, asTime(&n.CreatedAt), asTime(&n.RevokedAt),
		asTime(&n.LastSeenAt), &n.Version)
	return n, err
}

// AddNode enrols a node. The id is made and creation is now where they are not
// set. ErrConflict when the id or the public key is taken.
func (db *DB) AddNode(ctx context.Context, n store.Node) (store.Node, error) {
	const tried = "add node"
	now := db.now()
	if n.ID == "" {
		n.ID = store.NewID("node", now)
	}
	n.CreatedAt = timeOr(n.CreatedAt, now)
	n.RevokedAt, n.LastSeenAt, n.Version = time.Time{}, time.Time{}, ""
	if err := errors.Join(checkIDs(field{"node id", n.ID}, field{"public key", n.PublicKey}), checkTimes(n.CreatedAt),
		checkTexts(field{"name", n.Name}, field{"region", n.Region})); err != nil {
		return store.Node{}, db.fail(tried, err)
	}
	err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO nodes (id, name, region, public_key, created_at) VALUES (?, ?, ?, ?, ?)`,
			n.ID, n.Name, n.Region, n.PublicKey, micros(n.CreatedAt)); err != nil {
			return err
		}
		return t.audited(ctx, "node.enrol", n.ID, nil, n)
	})
	if err != nil {
		return store.Node{}, db.fail(tried, err)
	}
	return n, nil
}

// Node reads one node.
func (db *DB) Node(ctx context.Context, id string) (store.Node, error) {
	if err := mustBeText("node", id); err != nil {
		return store.Node{}, db.fail("read node", err)
	}
	n, err := scanNode(db.queryRow(ctx, `SELECT `+nodeColumns+` FROM nodes WHERE id = ?`, id))
	return n, db.fail("read node", err)
}

// Nodes lists all nodes, revoked ones as well, newest first.
func (db *DB) Nodes(ctx context.Context, p store.Page) ([]store.Node, string, error) {
	l := listing[store.Node]{table: "nodes", columns: nodeColumns, scan: scanNode}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list nodes", err)
}

// RevokeNode ends a node's enrolment for good. changed is false when it was
// revoked before.
func (db *DB) RevokeNode(ctx context.Context, id string) (n store.Node, changed bool, err error) {
	const tried = "revoke node"
	if err := mustBeText("node", id); err != nil {
		return n, false, db.fail(tried, err)
	}
	err = db.change(ctx, "", func(ctx context.Context, t *tx) error {
		touched, err := t.exec(ctx, `UPDATE nodes SET revoked_at = ? WHERE id = ? AND revoked_at = 0`, micros(db.now()), id)
		if err != nil {
			return err
		}
		changed = touched == 1
		rows, err := t.query(ctx, `SELECT `+nodeColumns+` FROM nodes WHERE id = ?`, id)
		if err != nil {
			return err
		}
		if n, err = only(rows, scanNode); err != nil || !changed {
			return err
		}
		before := n
		before.RevokedAt = time.Time{}
		return t.audited(ctx, "node.revoke", id, before, n)
	})
	if err != nil {
		return store.Node{}, false, db.fail(tried, err)
	}
	return n, changed, nil
}

// SeenNode notes that a node spoke at a time, in a version. An older time than
// the one noted changes nothing.
func (db *DB) SeenNode(ctx context.Context, id, version string, at time.Time) error {
	const tried = "note node seen"
	if err := errors.Join(mustBeText("node", id), checkTexts(field{"version", version}), checkTimes(at)); err != nil {
		return db.fail(tried, err)
	}
	return db.fail(tried, db.change(ctx, "", func(ctx context.Context, t *tx) error {
		touched, err := t.exec(ctx, `UPDATE nodes SET
				version = CASE WHEN last_seen_at <= ? THEN ? ELSE version END,
				last_seen_at = CASE WHEN last_seen_at <= ? THEN ? ELSE last_seen_at END
			WHERE id = ?`, micros(at), version, micros(at), micros(at), id)
		if err == nil && touched == 0 {
			err = store.ErrNotFound
		}
		return err
	}))
}
