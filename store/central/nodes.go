package central

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const nodeColumns = `id, name, region, public_key, created_at, revoked_at, last_seen_at, version, wire_version`

var nodeTable = table[store.Node]{noun: "node", from: "nodes", id: "id", columns: nodeColumns, scan: scanNode}

func scanNode(row db.Row) (n store.Node, err error) {
	err = row.Scan(&n.ID, &n.Name, &n.Region, &n.PublicKey, db.Time(&n.CreatedAt), db.Time(&n.RevokedAt),
		db.Time(&n.LastSeenAt), &n.Version, &n.WireVersion)
	return n, err
}

// AddNode enrols a node. The id is made and creation is now where they are not
// set. ErrConflict when the id or the public key exists already.
func (d *DB) AddNode(ctx context.Context, n store.Node) (store.Node, error) {
	now := d.db.Now()
	n.ID, n.CreatedAt = cmp.Or(n.ID, store.NewID("node", now)), db.TimeOr(n.CreatedAt, now)
	n.RevokedAt, n.LastSeenAt, n.Version = time.Time{}, time.Time{}, ""
	refused := errors.Join(valid.IDs("node id", n.ID, "public key", n.PublicKey), valid.Times(n.CreatedAt),
		valid.Texts("name", n.Name, "region", n.Region))
	return written(n, d.write(ctx, "add node", refused, func(ctx context.Context, t *tx) error {
		if _, err := t.Exec(ctx, `INSERT INTO nodes (id, name, region, public_key, created_at, wire_version) VALUES (?, ?, ?, ?, ?, ?)`,
			n.ID, n.Name, n.Region, n.PublicKey, db.Micros(n.CreatedAt), n.WireVersion); err != nil {
			return err
		}
		return t.audited(ctx, "node.enrol", n.ID, nil, n)
	}))
}

// Node reads one node.
func (d *DB) Node(ctx context.Context, id string) (store.Node, error) {
	return nodeTable.read(ctx, d, id)
}

// Nodes lists all nodes, revoked ones as well, newest first.
func (d *DB) Nodes(ctx context.Context, p store.Page) ([]store.Node, string, error) {
	return nodeTable.list(ctx, d, p)
}

// RevokeNode ends a node's enrolment for good. changed is false when it was
// revoked before.
func (d *DB) RevokeNode(ctx context.Context, id string) (revoked store.Node, changed bool, err error) {
	return revoke(ctx, d, nodeTable, id, func(n *store.Node) *time.Time { return &n.RevokedAt })
}

// RaiseWireVersion notes the version of messages that a node has spoken. An earlier
// one than was noted changes nothing.
func (d *DB) RaiseWireVersion(ctx context.Context, id string, version int) error {
	return d.write(ctx, "note a node's wire version", valid.Reference("node", id), func(ctx context.Context, t *tx) error {
		_, err := t.Exec(ctx, `UPDATE nodes SET wire_version = ? WHERE id = ? AND wire_version < ?`, version, id, version)
		return err
	})
}

// NodeSeen is when a node spoke last, and its version.
type NodeSeen struct {
	ID, Version string
	At          time.Time
	// Apart leaves out a time that is less than this after the one noted, unless the
	// version is another. The zero value leaves none out.
	Apart time.Duration
}

// updateSeen leaves a row where a later time was noted, or the same version not long
// ago: of several origins that hear a node one is to write. Rows are locked in the order
// of their ids, so that no two transactions wait for each other.
func updateSeen(ctx context.Context, t *db.Tx, seen []NodeSeen) error {
	return db.Bulk[NodeSeen]{
		Tried: "note when nodes spoke", Columns: "id, version, at, apart",
		Row: func(n NodeSeen) []any { return []any{n.ID, n.Version, db.Micros(n.At), n.Apart.Microseconds()} },
		Statement: `UPDATE nodes SET version = due.version, last_seen_at = due.at FROM (` + t.ForUpdate(`
			SELECT n.id, v.version, v.at FROM v JOIN nodes n ON n.id = v.id WHERE n.last_seen_at <= v.at
				AND (n.last_seen_at <= v.at - v.apart OR n.version <> v.version) ORDER BY n.id`) + `) due
			WHERE nodes.id = due.id`,
	}.Run(ctx, t, slices.SortedFunc(slices.Values(seen), func(a, b NodeSeen) int { return strings.Compare(a.ID, b.ID) }))
}

// SeenNodes notes when each of some nodes spoke, and in which version. An earlier time
// than the one noted changes nothing, and neither does a node that is not enrolled. A
// version that cannot be kept refuses its own node alone.
func (d *DB) SeenNodes(ctx context.Context, seen []NodeSeen) error {
	var refused error
	kept := slices.DeleteFunc(slices.Clone(seen), func(n NodeSeen) bool {
		err := errors.Join(valid.Reference("node", n.ID), valid.Texts("version", n.Version), valid.Times(n.At))
		refused = cmp.Or(refused, err)
		return err != nil
	})
	const tried = "note when nodes spoke"
	return cmp.Or(d.write(ctx, tried, nil, func(ctx context.Context, t *tx) error {
		return updateSeen(ctx, t.Tx, kept)
	}), db.Fail(tried, refused))
}
