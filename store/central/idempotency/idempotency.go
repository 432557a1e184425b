// Package idempotency keeps for a day what a write returned, under a key of its caller's
// choice, so that the write is done once however often it is asked for.
package idempotency

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

// TTL is the time for which an answer is kept.
const TTL = 24 * time.Hour

// ErrKey is the error of a write whose idempotency key named another one within the last
// 24 hours.
var ErrKey = fmt.Errorf("%w: the idempotency key was used for another request", store.ErrConflict)

// Request names a write.
type Request struct {
	Key    string // of the caller's choice, for one account and one kind of write
	Digest string // of what is asked for
	// Repeated is set by the write: it was done before, and returns what it returned
	// then. Its event has no Body.
	Repeated bool
}

type contextKey struct{}

// With names the write of a coaching run, a firing or a contact that is made with the
// context.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Of returns the Request that With put into ctx; nil without one.
func Of(ctx context.Context) *Request {
	r, _ := ctx.Value(contextKey{}).(*Request)
	return r
}

// Writes are the writes of one kind to one account.
type Writes struct {
	Account string
	Noun    string // of their records
}

func (w Writes) name(key string) string { return w.Noun + " " + key }

// Repeat reads into answer what a write with the same key returned, and sets
// r.Repeated: false when there was none in the last 24 hours.
func (w Writes) Repeat(ctx context.Context, t *db.Tx, r *Request, answer any) error {
	var digest, kept string
	r.Repeated = false
	err := t.Get(ctx, `SELECT digest, answer FROM idempotency WHERE account_id = ? AND name = ? AND created_at > ?`,
		[]any{w.Account, w.name(r.Key), store.Micros(t.Now().Add(-TTL))}, &digest, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case digest != r.Digest:
		return ErrKey
	}
	if err := parse(kept, answer); err != nil {
		return err
	}
	r.Repeated = true
	return nil
}

func parse(kept string, answer any) error {
	if err := json.Unmarshal([]byte(kept), answer); err != nil {
		return fmt.Errorf("read the answer to an idempotency key: %w", err)
	}
	return nil
}

// Keep keeps what a write returns for its repetitions, in place of what is there. Prune
// removes it once it has expired.
func (w Writes) Keep(ctx context.Context, t *db.Tx, r *Request, answer any) error {
	_, err := t.Exec(ctx, `INSERT INTO idempotency (account_id, name, digest, answer, created_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (account_id, name) DO UPDATE
		SET digest = excluded.digest, answer = excluded.answer, created_at = excluded.created_at`,
		w.Account, w.name(r.Key), r.Digest, db.JSONText(answer), store.Micros(t.Now()))
	return err
}

// Read reads into answer what is kept under a key, however long, and leaves it as it is
// where nothing is.
func (w Writes) Read(ctx context.Context, q db.Querier, key string, answer any) error {
	kept, err := db.One(ctx, q, db.Column[string], `SELECT answer FROM idempotency WHERE account_id = ? AND name = ?`, w.Account, w.name(key))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the answer to an idempotency key: %w", err)
	}
	return parse(kept, answer)
}

// Change changes what is kept under a key.
func (w Writes) Change(ctx context.Context, t *db.Tx, key string, answer any) error {
	_, err := t.Exec(ctx, `UPDATE idempotency SET answer = ? WHERE account_id = ? AND name = ?`, db.JSONText(answer), w.Account, w.name(key))
	return err
}

// Free removes what is kept under a key.
func (w Writes) Free(ctx context.Context, t *db.Tx, key string) error {
	_, err := t.Exec(ctx, `DELETE FROM idempotency WHERE account_id = ? AND name = ?`, w.Account, w.name(key))
	return err
}

// Forget removes what is kept for some accounts of writes of a kind whose record has a value
// in a field of text.
func Forget(ctx context.Context, t *db.Tx, noun string, accounts []string, field, value string) error {
	// The answer is JSON, in whose texts a quote has a backslash: nothing else reads like this.
	member := strings.Trim(db.JSONText(map[string]string{field: value}), "{}")
	_, err := t.Exec(ctx, `DELETE FROM idempotency WHERE `+t.In("account_id")+` AND name LIKE ? AND replace(answer, ?, '') <> answer`,
		t.Set(accounts), Writes{Noun: noun}.name("%"), member)
	return err
}

// PruneCursor is the place that a round of Prune has come to. Its zero value begins a round.
type PruneCursor struct{ at int64 }

// Prune removes up to limit answers that were given before a time, the oldest first, and
// returns how many, and the place behind them. It reads nothing before the cursor again, such
// as the dead entries of what a round has removed.
func Prune(ctx context.Context, t *db.Tx, before time.Time, limit int, cursor PruneCursor) (removed int, next PruneCursor, err error) {
	// PostgreSQL judges the outer condition again by a row that Keep has just replaced.
	given, err := db.All(ctx, t, func(row db.Row) (at int64, err error) { return at, row.Scan(&at) },
		`DELETE FROM idempotency WHERE (account_id, name) IN (
			SELECT account_id, name FROM idempotency WHERE created_at >= ? AND created_at < ? ORDER BY created_at LIMIT ?)
			AND created_at < ?
			RETURNING created_at`, cursor.at, store.Micros(before), limit, store.Micros(before))
	for _, at := range given {
		cursor.at = max(cursor.at, at)
	}
	return len(given), cursor, err
}
