// Package usage keeps how many requests each key was used for on each day.
//
// Nodes count, and report running totals: a report that comes twice, late, or to two
// origin processes is one. Only keys that are used cost anything.
package usage

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/grant"
	"partneredge/store/valid"
)

const (
	// Kept is for how long the counts of a day are kept.
	Kept = 90 * 24 * time.Hour
	// usedApart is the least time between two uses of a key that are both noted.
	usedApart = time.Minute
	// atOnce is the most counts in one transaction, which other writes may wait for.
	atOnce = 500
	// maxCount bounds a counter: 12 million requests a second for a whole day. With
	// maxBoots it keeps the sums of 90 days and two thousand nodes within 64 bits.
	maxCount = 1 << 40
	// maxBoots bounds the counters of one key, day and node: a node begins one at each
	// start.
	maxBoots = 32
)

// Reasons why counts are refused that no node can have come to.
const (
	RefusedCount = "usage_count" // more than a day has, or of more boots at once than are kept
	RefusedDay   = "usage_day"   // of a day that is not kept or yet to come: its clock is wrong
)

// Usage reads and writes the usage of keys. It is safe for many goroutines.
type Usage struct{ db *db.DB }

// New makes the Usage of a database.
func New(d *db.DB) *Usage { return &Usage{d} }

// Counter names what counts the requests of one key on one day: a node from one boot on.
type Counter struct {
	KeyID      string
	Day        store.Day
	Node, Boot string
}

// Count holds the totals of a counter, which only rise.
type Count struct {
	Requests int64 // those refused among them
	Limited  int64 // refused with 429
	LastUsed time.Time
	// Hash is the SHA-256 of the key's plaintext, by which a node proves that it holds
	// the key. Without one it counts when Vouched.
	Hash    []byte
	Vouched bool
}

// Merge returns the larger of both counts.
func (c Count) Merge(other Count) Count {
	c.Requests, c.Limited = max(c.Requests, other.Requests), max(c.Limited, other.Limited)
	if other.LastUsed.After(c.LastUsed) {
		c.LastUsed = other.LastUsed
	}
	if len(c.Hash) == 0 {
		c.Hash = other.Hash
	}
	c.Vouched = c.Vouched || other.Vouched
	return c
}

// row is a count that may be written.
type row struct {
	Counter
	Count
}

// RecordUsage notes counts that are larger than those noted, in transactions of at most
// 500. It leaves out keys that are not there or have a damaged hash, and new boots of a node
// of which 32 are noted for the key and day: those are not among refused, which would take a
// look at each. refused has the reasons why others are not believed: RefusedCount, RefusedDay
// or a grant.Refusal.
func (u *Usage) RecordUsage(ctx context.Context, counts map[Counter]Count) (refused map[Counter]string, err error) {
	const op = "record usage of keys"
	var ids []string
	for c := range counts {
		if valid.Reference("key", c.KeyID) == nil {
			ids = append(ids, c.KeyID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	hashes := make(map[string][32]byte, len(ids))
	for some := range slices.Chunk(ids, atOnce) {
		err := db.Each(ctx, u.db, func(r db.Row) error {
			var id string
			var hash [32]byte
			err := r.Scan(&id, db.Hash(&hash))
			if hash != ([32]byte{}) {
				hashes[id] = hash
			}
			return err
		}, `SELECT id, hash FROM keys WHERE `+u.db.In("id"), u.db.Set(some))
		if err != nil {
			return nil, db.Fail(op, err)
		}
	}
	rows, refused := u.believed(counts, hashes)
	for some := range slices.Chunk(rows, atOnce) {
		if err := u.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error { return write(ctx, t, some) }); err != nil {
			return nil, db.Fail(op, err)
		}
	}
	return refused, nil
}

// believed returns the counts of keys that their nodes prove to hold, in the order of
// their counters, so that no two processes wait for each other.
func (u *Usage) believed(counts map[Counter]Count, hashes map[string][32]byte) (rows []row, refused map[Counter]string) {
	refused = make(map[Counter]string)
	now := u.db.Now()
	first, last := store.DayOf(now.Add(-Kept)), store.DayOf(now)+1 // a node's clock may be ahead
	for counter, c := range counts {
		hash, known := hashes[counter.KeyID]
		switch {
		case !known:
		case len(c.Hash) == 0 && !c.Vouched:
			refused[counter] = string(grant.NoHash)
		case len(c.Hash) > 0 && !bytes.Equal(c.Hash, hash[:]):
			refused[counter] = string(grant.OtherKey)
		case counter.Day < first, counter.Day > last, valid.Times(c.LastUsed) != nil:
			refused[counter] = RefusedDay
		case c.Limited < 0, c.Limited > c.Requests, c.Requests > maxCount, valid.IDs("node", counter.Node, "boot", counter.Boot) != nil:
			refused[counter] = RefusedCount
		default:
			if c.LastUsed.After(now) {
				c.LastUsed = now
			}
			rows = append(rows, row{counter, c})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Boot, b.Boot))
	})
	return slices.DeleteFunc(rows, beyondBoots(refused)), refused
}

// beyondBoots returns a function that refuses, of rows in the order of their counters,
// those of more than maxBoots boots of one key, day and node.
func beyondBoots(refused map[Counter]string) func(row) bool {
	var last Counter
	boots := 0
	return func(r row) bool {
		of := r.Counter
		if of.Boot = ""; of != last {
			last, boots = of, 0
		}
		if boots++; boots > maxBoots {
			refused[r.Counter] = RefusedCount
		}
		return boots > maxBoots
	}
}

// insert leaves a row as it is that has come as far: of several origins that hear a node
// one is to write. It leaves out new boots of a key, day and node that has maxBoots.
var insert = db.Bulk[row]{
	Tried: "write key_usage", Columns: "key_id, day, node_id, boot, requests, limited",
	Row: func(r row) []any {
		return []any{r.KeyID, int64(r.Day), r.Node, r.Boot, r.Requests, r.Limited}
	},
	Statement: `INSERT INTO key_usage (key_id, day, node_id, boot, requests, limited)
		SELECT v.key_id, v.day, v.node_id, v.boot, v.requests, v.limited FROM v LEFT JOIN key_usage u
			ON u.key_id = v.key_id AND u.day = v.day AND u.node_id = v.node_id AND u.boot = v.boot
		WHERE u.requests < v.requests OR u.limited < v.limited OR u.requests IS NULL AND (SELECT count(*) FROM key_usage b
			WHERE b.key_id = v.key_id AND b.day = v.day AND b.node_id = v.node_id) < ` + strconv.Itoa(maxBoots) + `
		ORDER BY v.key_id, v.day, v.node_id, v.boot
		ON CONFLICT (key_id, day, node_id, boot) DO UPDATE SET
			requests = CASE WHEN excluded.requests > key_usage.requests THEN excluded.requests ELSE key_usage.requests END,
			limited = CASE WHEN excluded.limited > key_usage.limited THEN excluded.limited ELSE key_usage.limited END`,
}

// write leaves out the counts of keys that have gone since they were read. Those that
// are there stay until the transaction ends.
func write(ctx context.Context, t *db.Tx, rows []row) error {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.KeyID
	}
	kept, err := t.Strings(ctx, t.ForUpdate(`SELECT id FROM keys WHERE `+t.In("id")+` ORDER BY id`), t.Set(slices.Compact(ids)))
	if err != nil {
		return err
	}
	var left []row
	for _, r := range rows {
		if _, found := slices.BinarySearch(kept, r.KeyID); found {
			left = append(left, r)
		}
	}
	rows = left
	if err := insert.Run(ctx, t, rows); err != nil {
		return err
	}
	used := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		if r.LastUsed.After(used[r.KeyID]) {
			used[r.KeyID] = r.LastUsed
		}
	}
	return db.Bulk[string]{
		Tried: "note when keys were used", Columns: "id, at, apart",
		Row: func(id string) []any { return []any{id, store.Micros(used[id]), usedApart.Microseconds()} },
		Statement: `UPDATE keys SET last_used_at = due.at FROM (` + t.ForUpdate(`SELECT k.id, v.at FROM v JOIN keys k ON k.id = v.id
			WHERE k.last_used_at <= v.at - v.apart ORDER BY k.id`) + `) due WHERE keys.id = due.id`,
	}.Run(ctx, t, slices.Sorted(maps.Keys(used)))
}
