package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

const (
	idempotencyTTL   = 24 * time.Hour
	idempotencySlice = 100 // expired records that one write removes
)

// ErrIdempotencyKey is the error of a write whose idempotency key named another
// one within the last 24 hours.
var ErrIdempotencyKey = fmt.Errorf("%w: the idempotency key was used for another request", store.ErrConflict)

// Idempotency names a write, so that it is done once however often it is asked
// for.
type Idempotency struct {
	Key    string // of the caller's choice, for one account and one kind of write
	Digest string // of what is asked for
	// Repeated is set by the write: it was done before, and returns what it returned
	// then. Its event has no Body.
	Repeated bool
}

// idempotencyContext is the key of an Idempotency in a context.
type idempotencyContext struct{}

// WithIdempotency names the write of a coaching run, a firing or a contact that is
// made with the context.
func WithIdempotency(ctx context.Context, i *Idempotency) context.Context {
	return context.WithValue(ctx, idempotencyContext{}, i)
}

// ingestion is a write of a source to an account.
type ingestion struct {
	noun    string // of its record
	account string
	refused error // why it makes no sense; nil: it does
}

// ingested holds the record and the event of an ingestion, which it returns and
// keeps under an idempotency key.
type ingested[T any] struct {
	Record T            `json:"record"`
	Event  *store.Event `json:"event,omitempty"`
}

// ingest runs fn as writeTo does, unless the idempotency key of ctx says that this
// was done before. What fn did and its key are one transaction.
func ingest[T any](ctx context.Context, d *DB, in ingestion, fn func(context.Context, *tx) (T, *store.Event, error)) (T, *store.Event, error) {
	once, _ := ctx.Value(idempotencyContext{}).(*Idempotency)
	var done ingested[T]
	err := d.writeTo(ctx, "add "+in.noun, in.account, in.refused, func(ctx context.Context, t *tx) (err error) {
		done = ingested[T]{}
		if once != nil {
			once.Repeated, err = t.repeat(ctx, in, once, &done)
			if done.Event != nil {
				done.Event.Body = nil // else null, as it was kept
			}
			if err != nil || once.Repeated {
				return err
			}
		}
		if done.Record, done.Event, err = fn(ctx, t); err != nil || once == nil {
			return err
		}
		kept := done
		if kept.Event != nil {
			event := *kept.Event
			event.Body = nil
			kept.Event = &event
		}
		return t.keepAnswer(ctx, in, once, kept)
	})
	if err != nil {
		var none T
		return none, nil, err
	}
	return done.Record, done.Event, nil
}

func (in ingestion) name(i *Idempotency) string { return in.noun + " " + i.Key }

// repeat reads into answer what a write with the same key returned. repeated is
// false when there was none in the last 24 hours.
func (t *tx) repeat(ctx context.Context, in ingestion, i *Idempotency, answer any) (repeated bool, err error) {
	var digest, kept string
	err = t.Get(ctx, `SELECT digest, answer FROM idempotency WHERE account_id = ? AND name = ? AND created_at > ?`,
		[]any{in.account, in.name(i), db.Micros(t.Now().Add(-idempotencyTTL))}, &digest, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case digest != i.Digest:
		return false, ErrIdempotencyKey
	}
	if err := json.Unmarshal([]byte(kept), answer); err != nil {
		return false, fmt.Errorf("read the answer to an idempotency key: %w", err)
	}
	return true, nil
}

// keepAnswer keeps what a write returns for its repetitions, and removes records of
// the account that have expired.
func (t *tx) keepAnswer(ctx context.Context, in ingestion, i *Idempotency, answer any) error {
	now := t.Now()
	if _, err := t.Exec(ctx, `DELETE FROM idempotency WHERE account_id = ? AND name IN (
		SELECT name FROM idempotency WHERE account_id = ? AND created_at <= ? ORDER BY created_at LIMIT ?)`,
		in.account, in.account, db.Micros(now.Add(-idempotencyTTL)), idempotencySlice); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO idempotency (account_id, name, digest, answer, created_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (account_id, name) DO UPDATE
		SET digest = excluded.digest, answer = excluded.answer, created_at = excluded.created_at`,
		in.account, in.name(i), i.Digest, db.JSONText(answer), db.Micros(now))
	return err
}
