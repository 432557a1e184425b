package central

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const tokenColumns = `id, name, role, hash, created_at, revoked_at, expires_at, last_used_at`

var tokenTable = db.Table[store.Token]{Noun: "token", From: "tokens", ID: "id", Columns: tokenColumns, Scan: scanToken}

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
			token.ID, token.Name, string(token.Role), token.Hash[:], store.Micros(token.CreatedAt), store.Micros(token.ExpiresAt)); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "token.create", Target: token.ID, After: token})
	}))
}

// TokenByHash reads the token whose plaintext has this SHA-256, revoked or not.
func (d *DB) TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error) {
	t, err := scanToken(d.db.QueryRow(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash[:]))
	return t, db.Fail("read token by hash", err)
}

// Tokens lists all tokens, revoked ones as well, newest first.
func (d *DB) Tokens(ctx context.Context, p store.Page) ([]store.Token, string, error) {
	return tokenTable.List(ctx, d.db, p)
}

// UsedToken notes that a token was used. The audit log says nothing of it.
func (d *DB) UsedToken(ctx context.Context, id string, at time.Time) error {
	refused := errors.Join(valid.Reference("token", id), valid.Times(at))
	return d.write(ctx, "note the use of a token", refused, func(ctx context.Context, t *tx) error {
		_, err := t.Exec(ctx, `UPDATE tokens SET last_used_at = ? WHERE id = ? AND last_used_at < ?`, store.Micros(at), id, store.Micros(at))
		return err
	})
}

// RevokeToken ends a token at once. changed is false when it was revoked before.
func (d *DB) RevokeToken(ctx context.Context, id string) (revoked store.Token, changed bool, err error) {
	return audit.Revoke(ctx, d.db, tokenTable, id, func(t *store.Token) *time.Time { return &t.RevokedAt })
}

// Audit writes to the log what the actor of ctx did to something that is no record
// of the database, such as a lockout of a node. after marshals to what is known of
// it; nil is nothing.
func (d *DB) Audit(ctx context.Context, action, target string, after any) error {
	refused := errors.Join(valid.IDs("action", action), valid.Texts("target", target))
	return d.write(ctx, "write to the audit log", refused, func(ctx context.Context, t *tx) error {
		return t.audited(ctx, audit.Entry{Action: action, Target: target, After: after})
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
	err = row.Scan(&a.ID, db.Time(&a.At), &a.Actor.ID, &a.Actor.Name, &a.Actor.Role, &a.Actor.Remote,
		&a.Action, &a.Target, (*[]byte)(&a.Before), (*[]byte)(&a.After))
	return a, err
}

// AuditFilter selects a part of the audit log; what is not set selects all of it.
type AuditFilter struct {
	Target string // id of the record that was changed
	store.Span
}

// Audits lists the audit log, newest first.
func (d *DB) Audits(ctx context.Context, f AuditFilter, p store.Page) ([]store.Audit, string, error) {
	const op = "list audit log"
	if err := valid.Times(f.Since, f.Until); err != nil {
		return nil, "", db.Fail(op, err)
	}
	l := db.Listing[store.Audit]{
		Table: "audit", Columns: audit.Columns, Scan: scanAudit,
		Name: fmt.Sprintf("audit\x00\x00%s\x00%d\x00%d", f.Target, store.Micros(f.Since), store.Micros(f.Until)),
	}
	switch {
	case f.Target != "":
		if valid.Reference("target", f.Target) != nil { // nothing was ever done to what cannot be
			return []store.Audit{}, "", nil
		}
		l.Column, l.Value = "target", f.Target
		l.Where, l.Args = "at >= ? AND at < ?", []any{store.Micros(f.Since), auditedUntil(f.Span)}
	case f.Span != store.Span{}:
		items, next, err := d.auditsIn(ctx, l.Name, f.Span, p)
		return items, next, db.Fail(op, err)
	}
	items, next, err := l.Page(ctx, d.db, p)
	return items, next, db.Fail(op, err)
}

// auditedUntil returns the end of a span as times are kept, after all of them if it has none.
func auditedUntil(s store.Span) int64 {
	if s.Until.IsZero() {
		return math.MaxInt64
	}
	return store.Micros(s.Until)
}

const auditsIn = `SELECT n, ` + audit.Columns + ` FROM audit
	WHERE id >= ? AND id < ? AND at >= ? AND at < ? ORDER BY id DESC LIMIT ?`

// auditsIn lists a span of the log by the entries' ids, which have their times to the
// millisecond. Their numbers are not in the order of their times after a clock has been set.
func (d *DB) auditsIn(ctx context.Context, list string, s store.Span, p store.Page) ([]store.Audit, string, error) {
	before := "aud`" // after all ids
	if !s.Until.IsZero() {
		before = db.FirstID("aud", s.Until.Add(time.Millisecond))
	}
	if p.Cursor != "" {
		place, err := db.Place(list, p.Cursor)
		if err != nil {
			return nil, "", err
		}
		before = place
	}
	type numbered struct {
		n int64
		store.Audit
	}
	limit := db.PageLimit(p)
	found, err := db.All(ctx, d.db, func(row db.Row) (e numbered, err error) {
		e.Audit, err = scanAudit(db.Leading(row, &e.n))
		return e, err
	}, auditsIn, db.FirstID("aud", s.Since), before, store.Micros(s.Since), auditedUntil(s), limit+1)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = db.Cursor(list, found[limit-1].ID)
	}
	// Within a millisecond, ids are in no order.
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.n, a.n)) })
	items := make([]store.Audit, len(found))
	for i, e := range found {
		items[i] = e.Audit
	}
	return items, next, nil
}
