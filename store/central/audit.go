package central

import (
	"context"
	"database/sql"
	"encoding/json"

	"partneredge/store"
)

// actorKey finds the actor in a context.
type actorKey struct{}

// WithActor has the changes that are made with the context written to the audit
// log as this actor's, each in the transaction of the change itself. Without an
// actor nothing is written: the program acts for itself, or a service feeds an
// account.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// attributed is fn, run as the actor's of the caller's context.
func attributed(ctx context.Context, fn work) work {
	actor, found := ctx.Value(actorKey{}).(store.Actor)
	if !found {
		return fn
	}
	return func(ctx context.Context, t *tx) error {
		t.actor = &actor
		defer func() { t.actor = nil }()
		return fn(ctx, t)
	}
}

// audited writes to the log what the actor did to a record. before and after
// marshal to the record without secrets; nil is none.
func (t *tx) audited(ctx context.Context, action, target string, before, after any) error {
	if t.actor == nil {
		return nil
	}
	now := t.db.now()
	_, err := t.exec(ctx, `INSERT INTO audit (id, at, actor, name, role, remote, action, target, before, after)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, store.NewID("aud", now), micros(now),
		t.actor.ID, t.actor.Name, string(t.actor.Role), t.actor.Remote, action, target, recordText(before), recordText(after))
	return err
}

func recordText(v any) sql.NullString {
	if v == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: jsonText(v), Valid: true}
}

// auditKey is a key as the log shows it: without its hash.
func auditKey(k store.Key) any {
	type shown store.Key
	return struct {
		shown
		Hash *[32]byte `json:"hash,omitempty"`
	}{shown: shown(k)}
}

const auditColumns = `id, at, actor, name, role, remote, action, target, before, after`

func scanAudit(row scanner) (a store.Audit, err error) {
	var before, after sql.NullString
	err = row.Scan(&a.ID, asTime(&a.At), &a.Actor.ID, &a.Actor.Name, &a.Actor.Role, &a.Actor.Remote,
		&a.Action, &a.Target, &before, &after)
	a.Before, a.After = rawJSON(before), rawJSON(after)
	return a, err
}

func rawJSON(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// Audits lists the audit log, newest first. target "" is all of it.
func (db *DB) Audits(ctx context.Context, target string, p store.Page) ([]store.Audit, string, error) {
	const tried = "list audit log"
	if target != "" {
		if mustBeText("target", target) != nil { // nothing was ever done to what cannot be
			return []store.Audit{}, "", nil
		}
	}
	l := listing[store.Audit]{table: "audit", columns: auditColumns, scan: scanAudit, target: target}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail(tried, err)
}

// ActorOf is the actor that WithActor put into ctx.
func ActorOf(ctx context.Context) (a store.Actor, found bool) {
	a, found = ctx.Value(actorKey{}).(store.Actor)
	return a, found
}
