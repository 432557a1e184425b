// Package quarantine keeps the leads that the origin refused, until an operator
// has released or discarded them.
package quarantine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
	"partneredge/wasm/typeid"
)

// Remembered is the time for which what was settled is kept, so that a lead that a node
// hands over once more does not wait once more.
const Remembered = 90 * 24 * time.Hour

// Bounds of what waits.
const (
	mostLeads  = 10_000
	mostBytes  = 256 << 20
	ofNode     = 2    // one node has a half of that at most, so that a stolen one leaves room
	mostText   = 200  // bytes of an id
	mostReason = 1000 // bytes
)

const columns = `id, lead_id, account_id, key_id, node_id, reason, state, size, received_at, settled_at`

func scan(row db.Row) (q store.QuarantinedLead, err error) {
	err = row.Scan(fields(&q)...)
	return q, err
}

// scanWhole reads the body as well.
func scanWhole(row db.Row) (q store.QuarantinedLead, err error) {
	err = row.Scan(append(fields(&q), &q.Body)...)
	return q, err
}

func fields(q *store.QuarantinedLead) []any {
	return []any{&q.ID, &q.LeadID, &q.AccountID, &q.KeyID, &q.NodeID, &q.Reason, &q.State, &q.Size,
		db.Time(&q.ReceivedAt), db.Time(&q.SettledAt)}
}

// Add keeps leads of one node, each once, in a transaction. full holds the places of those for
// which there is no room. The caller sets what is known of them but for the ID.
func Add(ctx context.Context, t *db.Tx, leads []store.QuarantinedLead) (full []int, err error) {
	if len(leads) == 0 {
		return nil, nil
	}
	left, err := roomFor(ctx, t, leads[0].NodeID)
	if err != nil {
		return nil, err
	}
	for i, q := range leads {
		id := IDOf(q.LeadID, q.AccountID, q.Body)
		var known int
		if err := t.Get(ctx, `SELECT count(*) FROM quarantine WHERE id = ?`, []any{id}, &known); err != nil {
			return nil, err
		}
		size := int64(len(q.Body))
		if known == 0 && (left.leads <= 0 || left.bytes < size) {
			full = append(full, i)
			continue
		}
		added, err := t.Exec(ctx, `INSERT INTO quarantine (`+columns+`, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
			ON CONFLICT (id) DO NOTHING`, id, held(q.LeadID, mostText), held(q.AccountID, mostText), held(q.KeyID, mostText),
			held(q.NodeID, mostText), held(q.Reason, mostReason), string(store.QuarantineWaiting), size, store.Micros(t.Now()), bodyOf(q.Body))
		if err != nil {
			return nil, err
		}
		left.leads -= added
		left.bytes -= added * size
	}
	return full, nil
}

// room is for further leads.
type room struct{ leads, bytes int64 }

// taken reads how many leads wait, of all nodes and of one, and their bytes.
const taken = `SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT),
		count(*) FILTER (WHERE node_id = ?), CAST(coalesce(sum(size) FILTER (WHERE node_id = ?), 0) AS BIGINT)
	FROM quarantine WHERE state = ?`

// roomFor returns the room that a node has: its own, or of all where that is less.
func roomFor(ctx context.Context, t *db.Tx, node string) (room, error) {
	var all, own room
	node = held(node, mostText) // as it is kept
	err := t.Get(ctx, taken, []any{node, node, string(store.QuarantineWaiting)}, &all.leads, &all.bytes, &own.leads, &own.bytes)
	return room{min(mostLeads-all.leads, mostLeads/ofNode-own.leads), min(mostBytes-all.bytes, mostBytes/ofNode-own.bytes)}, err
}

// IDOf returns the id under which a lead waits: the same for the same body, however often it comes.
func IDOf(leadID, accountID string, body []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s", len(leadID), leadID, len(accountID), accountID)
	h.Write(body)
	return typeid.Make("qtn", 0, [10]byte(h.Sum(nil)))
}

// held returns text if the database can hold it within most bytes, else "".
func held(text string, most int) string {
	if len(text) > most || !valid.Text(text) {
		return ""
	}
	return text
}

// bodyOf returns a body that is not NULL.
func bodyOf(body []byte) []byte { return append([]byte{}, body...) }

// Read reads one lead with its body.
func Read(ctx context.Context, q db.Querier, id string) (store.QuarantinedLead, error) {
	if err := valid.Reference("quarantined lead", id); err != nil {
		return store.QuarantinedLead{}, err
	}
	return db.One(ctx, q, scanWhole, `SELECT `+columns+`, body FROM quarantine WHERE id = ?`, id)
}

// List reads a page of the leads that wait and came in within a span, newest first.
// There are at most 10 000 that wait, so it may read all of them.
func List(ctx context.Context, q db.Querier, s store.Span, p store.Page) ([]store.QuarantinedLead, string, error) {
	since, until := store.Micros(s.Since), store.Micros(s.Until)
	l := db.Listing[store.QuarantinedLead]{
		Table: "quarantine", Columns: columns, Scan: scan, Name: fmt.Sprintf("quarantine\x00%d\x00%d", since, until),
		Column: "state", Value: string(store.QuarantineWaiting), Where: "received_at >= ?", Args: []any{since},
	}
	if until > 0 {
		l.Where, l.Args = l.Where+" AND received_at < ?", append(l.Args, until)
	}
	return l.Page(ctx, q, p)
}

// OfAccount returns the ids of an account's leads, those that were settled as well.
func OfAccount(ctx context.Context, q db.Querier, account string) ([]string, error) {
	return db.All(ctx, q, db.Column[string], `SELECT id FROM quarantine WHERE account_id = ? ORDER BY n`, account)
}

// Conditions that take an id twice. Each column has an index.
const (
	underID    = `id = ? OR lead_id = ?`
	releasedTo = `released_as = ? OR released_to = ?`
)

// Remove removes all that is kept under the id of a lead or under its own, settled or not, and
// returns it, the newest first.
func Remove(ctx context.Context, t *db.Tx, id string) ([]store.QuarantinedLead, error) {
	removed, err := db.All(ctx, t, scanWhole, t.ForUpdate(`SELECT `+columns+`, body FROM quarantine WHERE `+underID+` ORDER BY n DESC`), id, id)
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	_, err = t.Exec(ctx, `DELETE FROM quarantine WHERE `+underID, id, id)
	return removed, err
}

// RemoveReleased removes what was released as a lead, or to an account, and returns its ids.
func RemoveReleased(ctx context.Context, t *db.Tx, id string) ([]string, error) {
	return t.Strings(ctx, `DELETE FROM quarantine WHERE `+releasedTo+` RETURNING id`, id, id)
}

// Count returns how many leads wait.
func Count(ctx context.Context, q db.Querier) (n int, err error) {
	return db.One(ctx, q, db.Column[int], `SELECT count(*) FROM quarantine WHERE state = ?`, string(store.QuarantineWaiting))
}

// Settle ends the wait of a lead and drops its body. released is what it was mended to, nil when
// it is discarded. ErrConflict when it waits no more.
func Settle(ctx context.Context, t *db.Tx, id string, released *store.Lead) error {
	as, to := store.QuarantineDiscarded, store.Lead{}
	if released != nil {
		as, to = store.QuarantineReleased, *released
	}
	settled, err := t.Exec(ctx, `UPDATE quarantine SET state = ?, settled_at = ?, body = ?, released_as = ?, released_to = ? WHERE id = ? AND state = ?`,
		string(as), store.Micros(t.Now()), bodyOf(nil), to.ID, to.AccountID, id, string(store.QuarantineWaiting))
	if err != nil {
		return err
	}
	if settled > 0 {
		return nil
	}
	q, err := Read(ctx, t, id)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the lead is %s already", store.ErrConflict, q.State)
}

// DiscardOld discards up to limit leads that have waited since before a time, the oldest
// first, and returns how many.
func DiscardOld(ctx context.Context, t *db.Tx, before time.Time, limit int) (discarded int, err error) {
	waiting := string(store.QuarantineWaiting)
	done, err := t.Exec(ctx, `UPDATE quarantine SET state = ?, settled_at = ?, body = ? WHERE state = ? AND id IN (
		SELECT id FROM quarantine WHERE state = ? AND received_at < ? ORDER BY n LIMIT ?)`,
		string(store.QuarantineDiscarded), store.Micros(t.Now()), bodyOf(nil), waiting, waiting, store.Micros(before), limit)
	return int(done), err
}

// Forget removes up to limit leads that were settled before a time, and returns how many. What
// was released stays as long as the lead that it became: its deletion asks for it.
func Forget(ctx context.Context, t *db.Tx, before time.Time, limit int) (removed int, err error) {
	gone, err := t.Exec(ctx, `DELETE FROM quarantine WHERE id IN (
		SELECT id FROM quarantine q WHERE state <> ? AND settled_at < ?
			AND NOT EXISTS (SELECT 1 FROM leads WHERE leads.id = q.released_as) ORDER BY n LIMIT ?)`,
		string(store.QuarantineWaiting), store.Micros(before), limit)
	return int(gone), err
}
