package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const nodeColumns = `id, name, region, public_key, created_at, revoked_at, wire_version`

var nodeTable = db.Table[store.Node]{Noun: "node", From: "nodes", ID: "id", Columns: nodeColumns, Scan: scanNode}

// scanNode leaves out when the node was seen, and in which version.
func scanNode(row db.Row) (n store.Node, err error) {
	err = row.Scan(&n.ID, &n.Name, &n.Region, &n.PublicKey, db.Time(&n.CreatedAt), db.Time(&n.RevokedAt), &n.WireVersion)
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
			n.ID, n.Name, n.Region, n.PublicKey, store.Micros(n.CreatedAt), n.WireVersion); err != nil {
			return err
		}
		return log.Add(ctx, t, audit.Entry{Action: "node.enrol", Target: n.ID, After: n})
	}))
}

// Node reads one node.
func (f *Fleet) Node(ctx context.Context, id string) (store.Node, error) {
	n, err := nodeTable.Read(ctx, f.db, id)
	if err != nil {
		return store.Node{}, err
	}
	return f.whenSeen(ctx, n)
}

// Nodes lists all nodes, revoked ones as well, newest first.
func (f *Fleet) Nodes(ctx context.Context, p store.Page) ([]store.Node, string, error) {
	nodes, next, err := nodeTable.List(ctx, f.db, p)
	if err == nil {
		err = db.Fail("list nodes", addSeen(ctx, f.db, nodes))
	}
	if err != nil {
		return nil, "", err
	}
	return nodes, next, nil
}

// EnrolledNodes lists nodes as Nodes does, without when they were seen and in which
// version: for whoever reads all of them again and again.
func (f *Fleet) EnrolledNodes(ctx context.Context, p store.Page) ([]store.Node, string, error) {
	return nodeTable.List(ctx, f.db, p)
}

// RevokeNode ends a node's enrolment for good. changed is false when it was
// revoked before.
func (f *Fleet) RevokeNode(ctx context.Context, id string) (revoked store.Node, changed bool, err error) {
	revoked, changed, err = audit.Revoke(ctx, f.db, nodeTable, id, func(n *store.Node) *time.Time { return &n.RevokedAt })
	if err != nil {
		return store.Node{}, false, err
	}
	revoked, err = f.whenSeen(ctx, revoked)
	return revoked, changed, err
}

// whenSeen returns a node with when it was seen, and in which version.
func (f *Fleet) whenSeen(ctx context.Context, n store.Node) (store.Node, error) {
	nodes := []store.Node{n}
	err := db.Fail("read node", addSeen(ctx, f.db, nodes))
	return written(nodes[0], err)
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

// addSeen sets in nodes when each was seen, and in which version.
func addSeen(ctx context.Context, d *db.DB, nodes []store.Node) error {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	byID, err := lastSeen(ctx, d, ids)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := byID[nodes[i].ID]
		nodes[i].LastSeenAt, nodes[i].Version = n.At, n.Version
	}
	return nil
}

// lastSeen reads when each of some nodes was seen last, and in which version. Earlier
// programs, which may have been the last to hear a node, note it in its own row.
func lastSeen(ctx context.Context, d *db.DB, ids []string) (map[string]NodeSeen, error) {
	byID := make(map[string]NodeSeen, len(ids))
	err := db.Each(ctx, d, func(row db.Row) error {
		var n NodeSeen
		err := row.Scan(&n.ID, db.Time(&n.At), &n.Version)
		if last, known := byID[n.ID]; !known || last.At.Before(n.At) {
			byID[n.ID] = n
		}
		return err
	}, `SELECT id, at, version FROM node_seen WHERE `+d.In("id")+`
		UNION ALL SELECT id, last_seen_at, version FROM nodes WHERE `+d.In("id"), d.Set(ids), d.Set(ids))
	return byID, err
}

// LastSeen reads when each of some nodes spoke last to any origin process. Nodes that are not
// enrolled are left out; the time of one that never did is zero.
func (f *Fleet) LastSeen(ctx context.Context, ids []string) (map[string]time.Time, error) {
	seen, err := lastSeen(ctx, f.db, ids)
	if err != nil {
		return nil, db.Fail("read when nodes spoke", err)
	}
	times := make(map[string]time.Time, len(seen))
	for id, n := range seen {
		times[id] = n.At
	}
	return times, nil
}

const noteSeen = "note when nodes spoke"

var updateSeen = db.Bulk[NodeSeen]{
	Tried: noteSeen, Columns: seenColumns, Row: seenRow,
	Statement: `UPDATE node_seen SET at = v.at, version = v.version FROM v
		WHERE node_seen.id = v.id AND (
			node_seen.at <= v.at AND (node_seen.at <= v.at - v.apart OR node_seen.version <> v.version)
			OR node_seen.at > v.at + 300000000 AND node_seen.at < v.at + 43200000000)`,
}

// insertSeen makes the rows of nodes that have none yet.
var insertSeen = db.Bulk[NodeSeen]{
	Tried: noteSeen, Columns: seenColumns, Row: seenRow,
	Statement: `INSERT INTO node_seen (id, at, version) SELECT v.id, v.at, v.version FROM v JOIN nodes ON nodes.id = v.id
		WHERE NOT EXISTS (SELECT 1 FROM node_seen s WHERE s.id = v.id)`,
}

const seenColumns = "id, version, at, apart"

func seenRow(n NodeSeen) []any {
	return []any{n.ID, n.Version, store.Micros(n.At), n.Apart.Microseconds()}
}

// UpdateSeen leaves a row where a later time was noted, or the same version not long
// ago: of several origins that hear a node one is to write. A time that is five minutes to
// twelve hours later was noted by a clock that was wrong, and is replaced. One that is later
// still is kept: it tells that the clock was put back since. busy: another transaction
// writes such rows, which it does not wait for, and nothing was written.
func UpdateSeen(ctx context.Context, t *db.Tx, seen []NodeSeen) (busy bool, err error) {
	free, err := t.TryLock(ctx, "node_seen") // cheaper than a lock on each row
	if err != nil || !free {
		return !free, err
	}
	updated, err := updateSeen.Count(ctx, t, seen)
	if err == nil && updated < int64(len(seen)) {
		err = insertSeen.Run(ctx, t, seen)
	}
	return false, err
}

// SeenNodes notes when each of some nodes spoke, and in which version. An earlier time
// than the one noted changes nothing, and neither does a node that is not enrolled. A
// version that cannot be kept refuses its own node alone. On PostgreSQL no other write
// shares the transaction or waits for it, and what was noted last may be lost with the
// server: nodes speak again. It waits for no other either: busy says that another origin
// was writing such times, and that none of these was written, which is to be done later.
func (f *Fleet) SeenNodes(ctx context.Context, seen []NodeSeen) (busy bool, err error) {
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
		busy, err = UpdateSeen(ctx, t, kept)
		return err
	})
	if err != nil {
		return false, db.Fail(noteSeen, err)
	}
	return busy, db.Fail(noteSeen, refused)
}
