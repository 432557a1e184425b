package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const nodeColumns = `id, name, region, public_key, created_at, revoked_at, last_seen_at, version, wire_version`

var nodeTable = db.Table[store.Node]{Noun: "node", From: "nodes", ID: "id", Columns: nodeColumns, Scan: scanNode}

func scanNode(row db.Row) (n store.Node, err error) {
	err = row.Scan(&n.ID, &n.Name, &n.Region, &n.PublicKey, db.Time(&n.CreatedAt), db.Time(&n.RevokedAt),
		db.Time(&n.LastSeenAt), &n.Version, &n.WireVersion)
	return n, err
}

// AddNode enrols a node. The id is made and creation is now where they are not
// set. ErrConflict when the id or the public key exists already.
func (f *Fleet) AddNode(ctx context.Context, n store.Node) (store.Node, error) {
	now := f.db.Now()
	n.ID, n.CreatedAt = cmp.Or(n.ID, store.NewID("node", now)), db.TimeOr(n.CreatedAt, now)
	n.RevokedAt, n.LastSeenAt, n.Version = time.Time{}, time.Time{}, ""
	refused := errors.Join(valid.IDs("node id", n.ID, "public key", n.PublicKey), valid.Times(n.CreatedAt),
		valid.Texts("name", n.Name, "region", n.Region))
	return written(n, audit.Write(ctx, f.db, "add node", refused, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		if _, err := t.Exec(ctx, `INSERT INTO nodes (id, name, region, public_key, created_at, wire_version) VALUES (?, ?, ?, ?, ?, ?)`,
			n.ID, n.Name, n.Region, n.PublicKey, db.Micros(n.CreatedAt), n.WireVersion); err != nil {
			return err
		}
		return log.Add(ctx, t, "node.enrol", n.ID, nil, n)
	}))
}

// Node reads one node.
func (f *Fleet) Node(ctx context.Context, id string) (store.Node, error) {
	return nodeTable.Read(ctx, f.db, id)
}

// Nodes lists all nodes, revoked ones as well, newest first.
func (f *Fleet) Nodes(ctx context.Context, p store.Page) ([]store.Node, string, error) {
	return nodeTable.List(ctx, f.db, p)
}

// RevokeNode ends a node's enrolment for good. changed is false when it was
// revoked before.
func (f *Fleet) RevokeNode(ctx context.Context, id string) (revoked store.Node, changed bool, err error) {
	return audit.Revoke(ctx, f.db, nodeTable, id, func(n *store.Node) *time.Time { return &n.RevokedAt })
}

// RaiseWireVersion notes the version of messages that a node has spoken. An earlier
// one than was noted changes nothing.
func (f *Fleet) RaiseWireVersion(ctx context.Context, id string, version int) error {
	return audit.Write(ctx, f.db, "note a node's wire version", valid.Reference("node", id), func(ctx context.Context, t *db.Tx, log audit.Log) error {
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

const noteSeen = "note when nodes spoke"

// UpdateSeen leaves a row where a later time was noted, or the same version not long
// ago: of several origins that hear a node one is to write. On PostgreSQL it waits for no
// row: skipped are the nodes that it left since another transaction writes them, or has
// just written them.
func UpdateSeen(ctx context.Context, t *db.Tx, seen []NodeSeen) (skipped []string, err error) {
	place := "id"
	if t.Postgres() {
		place = "ctid" // which a row keeps while it is locked, and by which no index is searched again
	}
	due := `SELECT n.` + place + ` AS place, v.version, v.at FROM v JOIN nodes n ON n.id = v.id
			WHERE n.last_seen_at <= v.at AND (n.last_seen_at <= v.at - v.apart OR n.version <> v.version)`
	if t.Postgres() {
		due = t.ForUpdate(due) + " SKIP LOCKED"
	}
	written, err := db.Bulk[NodeSeen]{
		Tried: noteSeen, Columns: "id, version, at, apart",
		Row: func(n NodeSeen) []any { return []any{n.ID, n.Version, db.Micros(n.At), n.Apart.Microseconds()} },
		Statement: `UPDATE nodes SET version = due.version, last_seen_at = due.at FROM (` + due + `) due
			WHERE nodes.` + place + ` = due.place`,
	}.Count(ctx, t, seen)
	if err != nil || !t.Postgres() || written == int64(len(seen)) {
		return nil, err
	}
	return stillDue(ctx, t, seen)
}

// stillDue returns the nodes of which UpdateSeen has not noted what it was to.
func stillDue(ctx context.Context, t *db.Tx, seen []NodeSeen) ([]string, error) {
	ids, byID := make([]string, len(seen)), make(map[string]NodeSeen, len(seen))
	for i, n := range seen {
		ids[i], byID[n.ID] = n.ID, n
	}
	noted, err := db.All(ctx, t, func(row db.Row) (n NodeSeen, err error) {
		err = row.Scan(&n.ID, &n.Version, db.Time(&n.At))
		return n, err
	}, `SELECT id, version, last_seen_at FROM nodes WHERE `+t.In("id"), t.Set(ids))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", noteSeen, err)
	}
	var due []string
	for _, n := range noted {
		since := db.Micros(byID[n.ID].At) - db.Micros(n.At)
		if since >= 0 && n.Version != byID[n.ID].Version || since > 0 && since >= byID[n.ID].Apart.Microseconds() {
			due = append(due, n.ID)
		}
	}
	return due, nil
}

// SeenNodes notes when each of some nodes spoke, and in which version. An earlier time
// than the one noted changes nothing, and neither does a node that is not enrolled. A
// version that cannot be kept refuses its own node alone. On PostgreSQL no other write
// shares the transaction or waits for it, but for one of the same node, and what was noted
// last may be lost with the server: nodes speak again. It waits for no other either, and
// returns the nodes that it skipped for that, which are to be noted later.
func (f *Fleet) SeenNodes(ctx context.Context, seen []NodeSeen) (skipped []string, err error) {
	var refused error
	kept := slices.DeleteFunc(slices.Clone(seen), func(n NodeSeen) bool {
		err := errors.Join(valid.Reference("node", n.ID), valid.Texts("version", n.Version), valid.Times(n.At))
		refused = cmp.Or(refused, err)
		return err != nil
	})
	err = f.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		if err := t.DeferSync(ctx); err != nil {
			return err
		}
		skipped, err = UpdateSeen(ctx, t, kept)
		return err
	})
	if err != nil {
		return nil, db.Fail(noteSeen, err)
	}
	return skipped, db.Fail(noteSeen, refused)
}
