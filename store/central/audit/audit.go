// Package audit writes the log of who changed what, each entry in the transaction of the
// change itself.
package audit

import (
	"context"
	"database/sql"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Columns of the log, but for its number.
const Columns = `id, at, actor, name, role, remote, action, target, before, after`

// actorKey is the key of the actor in a context.
type actorKey struct{}

// ActorOf returns the actor that WithActor put into ctx.
func ActorOf(ctx context.Context) (a store.Actor, found bool) {
	a, found = ctx.Value(actorKey{}).(store.Actor)
	return a, found
}

// WithActor returns a context of this actor. The changes that are made with it are
// written to the audit log as the actor's, each in the transaction of the change itself. Without an
// actor nothing is written: the program acts for itself, or a source writes to an
// account.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Log writes to the log what one actor does. The zero Log, of nobody, writes nothing.
type Log struct{ actor *store.Actor }

// LogOf returns the Log of the actor in ctx.
func LogOf(ctx context.Context) Log {
	if a, found := ActorOf(ctx); found {
		return Log{&a}
	}
	return Log{}
}

// Entry says what was done to a record.
type Entry struct {
	Action string // such as node.enrol
	Target string // the record's id
	// Before and After marshal to the record without secrets; nil is none.
	Before, After any
}

// Add writes what the actor did.
func (l Log) Add(ctx context.Context, t *db.Tx, e Entry) error {
	if l.actor == nil {
		return nil
	}
	now := t.Now()
	_, err := t.Exec(ctx, `INSERT INTO audit (`+Columns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, store.NewID("aud", now), store.Micros(now),
		l.actor.ID, l.actor.Name, string(l.actor.Role), l.actor.Remote, e.Action, e.Target, recordText(e.Before), recordText(e.After))
	return err
}

func recordText(v any) sql.NullString {
	if v == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: db.JSONText(v), Valid: true}
}

// Write runs fn in a shared transaction, with the log of the actor in ctx, unless refused
// says why the call makes no sense. Its error says what was tried.
func Write(ctx context.Context, d *db.DB, op string, refused error, fn func(context.Context, *db.Tx, Log) error) error {
	if refused == nil {
		log := LogOf(ctx)
		refused = d.Write(ctx, "", func(ctx context.Context, t *db.Tx) error { return fn(ctx, t, log) })
	}
	return db.Fail(op, refused)
}

// Revoke sets the time of revocation of a record, for good. changed is false when it was
// revoked before.
func Revoke[T any](ctx context.Context, d *db.DB, k db.Table[T], id string, revokedAt func(*T) *time.Time) (record T, changed bool, err error) {
	err = Write(ctx, d, "revoke "+k.Noun, valid.Reference(k.Noun, id), func(ctx context.Context, t *db.Tx, log Log) error {
		touched, err := t.Exec(ctx, `UPDATE `+k.From+` SET revoked_at = ? WHERE id = ? AND revoked_at = 0`, store.Micros(t.Now()), id)
		if err != nil {
			return err
		}
		changed = touched == 1
		if record, err = k.Get(ctx, t, id); err != nil || !changed {
			return err
		}
		before := record
		*revokedAt(&before) = time.Time{}
		return log.Add(ctx, t, Entry{Action: k.Noun + ".revoke", Target: id, Before: before, After: record})
	})
	if err != nil {
		var none T
		return none, false, err
	}
	return record, changed, nil
}
