package central

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const tokenColumns = `id, name, role, hash, created_at, revoked_at, expires_at, last_used_at`

var tokenTable = table[store.Token]{noun: "token", from: "tokens", id: "id", columns: tokenColumns, scan: scanToken}

func scanToken(row db.Row) (t store.Token, err error) {
	err = row.Scan(&t.ID, &t.Name, &t.Role, db.Hash(&t.Hash), db.Time(&t.CreatedAt), db.Time(&t.RevokedAt),
		db.Time(&t.ExpiresAt), db.Time(&t.LastUsedAt))
	return t, err
}

// CreateToken lets somebody use the admin API. The id is made and creation is
// now where they are not set. ErrConflict when the id or the hash exists already.
func (d *DB) CreateToken(ctx context.Context, token store.Token) (store.Token, error) {
	now := d.db.Now()
	token.ID = cmp.Or(token.ID, store.NewID("tok", now))
	token.CreatedAt, token.RevokedAt, token.LastUsedAt = db.TimeOr(token.CreatedAt, now), time.Time{}, time.Time{}
	token.ExpiresAt = db.TimeOr(token.ExpiresAt, time.Time{})
	refused := errors.Join(valid.IDs("token id", token.ID), valid.Texts("name", token.Name), valid.Times(token.CreatedAt, token.ExpiresAt),
		valid.OneOf("role", token.Role, store.RoleViewer, store.RoleOperator, store.RoleAdmin))
	if refused == nil && token.Hash == ([32]byte{}) {
		refused = valid.Errorf("hash is not set")
	}
	return written(token, d.write(ctx, "create token", refused, func(ctx context.Context, t *tx) error {
		if _, err := t.Exec(ctx, `INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, 0, ?, 0)`,
			token.ID, token.Name, string(token.Role), token.Hash[:], db.Micros(token.CreatedAt), db.Micros(token.ExpiresAt)); err != nil {
			return err
		}
		return t.audited(ctx, "token.create", token.ID, nil, token)
	}))
}

// TokenByHash reads the token whose plaintext has this SHA-256, revoked or not.
func (d *DB) TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error) {
	t, err := scanToken(d.db.QueryRow(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash[:]))
	return t, db.Fail("read token by hash", err)
}

// Tokens lists all tokens, revoked ones as well, newest first.
func (d *DB) Tokens(ctx context.Context, p store.Page) ([]store.Token, string, error) {
	return tokenTable.list(ctx, d, p)
}

// UsedToken notes that a token was used. The audit log says nothing of it.
func (d *DB) UsedToken(ctx context.Context, id string, at time.Time) error {
	refused := errors.Join(valid.Reference("token", id), valid.Times(at))
	return d.write(ctx, "note the use of a token", refused, func(ctx context.Context, t *tx) error {
		_, err := t.Exec(ctx, `UPDATE tokens SET last_used_at = ? WHERE id = ? AND last_used_at < ?`, db.Micros(at), id, db.Micros(at))
		return err
	})
}

// RevokeToken ends a token at once. changed is false when it was revoked before.
func (d *DB) RevokeToken(ctx context.Context, id string) (revoked store.Token, changed bool, err error) {
	return revoke(ctx, d, tokenTable, id, func(t *store.Token) *time.Time { return &t.RevokedAt })
}

const auditColumns = `id, at, actor, name, role, remote, action, target, before, after`

// actorKey is the key of the actor in a context.
type actorKey struct{}

// ActorOf returns the actor that WithActor put into ctx.
func ActorOf(ctx context.Context) (a store.Actor, found bool) {
	a, found = ctx.Value(actorKey{}).(store.Actor)
	return a, found
}

// WithActor has the changes that are made with the context written to the audit
// log as this actor's, each in the transaction of the change itself. Without an
// actor nothing is written: the program acts for itself, or a source writes to an
// account.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// audited writes to the log what the actor did to a record. before and after
// marshal to the record without secrets; nil is none.
func (t *tx) audited(ctx context.Context, action, target string, before, after any) error {
	if t.actor == nil {
		return nil
	}
	now := t.Now()
	_, err := t.Exec(ctx, `INSERT INTO audit (`+auditColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, store.NewID("aud", now), db.Micros(now),
		t.actor.ID, t.actor.Name, string(t.actor.Role), t.actor.Remote, action, target, recordText(before), recordText(after))
	return err
}

func recordText(v any) sql.NullString {
	if v == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: db.JSONText(v), Valid: true}
}

// Audit writes to the log what the actor of ctx did to something that is no record
// of the database, such as a lockout of a node. after marshals to what is known of
// it; nil is nothing.
func (d *DB) Audit(ctx context.Context, action, target string, after any) error {
	refused := errors.Join(valid.IDs("action", action), valid.Texts("target", target))
	return d.write(ctx, "write to the audit log", refused, func(ctx context.Context, t *tx) error {
		return t.audited(ctx, action, target, nil, after)
	})
}

// auditKey returns a key as the log shows it: without its hash.
func auditKey(k store.Key) any {
	type shown store.Key
	return struct {
		shown
		Hash *[32]byte `json:"hash,omitempty"`
	}{shown: shown(k)}
}

func scanAudit(row db.Row) (a store.Audit, err error) {
	var before, after sql.NullString
	err = row.Scan(&a.ID, db.Time(&a.At), &a.Actor.ID, &a.Actor.Name, &a.Actor.Role, &a.Actor.Remote,
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
func (d *DB) Audits(ctx context.Context, target string, p store.Page) ([]store.Audit, string, error) {
	l := db.Listing[store.Audit]{Table: "audit", Columns: auditColumns, Scan: scanAudit, Name: "audit\x00\x00" + target}
	if target != "" {
		if valid.Reference("target", target) != nil { // nothing was ever done to what cannot be
			return []store.Audit{}, "", nil
		}
		l.Column, l.Value = "target", target
	}
	items, next, err := l.Page(ctx, d.db, p)
	return items, next, db.Fail("list audit log", err)
}
