package central

import (
	"context"
	"errors"
	"time"

	"partneredge/store"
)

const tokenColumns = `id, name, role, hash, created_at, revoked_at`

func scanToken(row scanner) (t store.Token, err error) {
	err = row.Scan(&t.ID, &t.Name, &t.Role, hashColumn{&t.Hash}, asTime(&t.CreatedAt), asTime(&t.RevokedAt))
	return t, err
}

// CreateToken lets somebody use the admin API. The id is made and creation is
// now where they are not set. ErrConflict when the id or the hash is taken.
func (db *DB) CreateToken(ctx context.Context, token store.Token) (store.Token, error) {
	const tried = "create token"
	now := db.now()
	if token.ID == "" {
		token.ID = store.NewID("tok", now)
	}
	token.CreatedAt, token.RevokedAt = timeOr(token.CreatedAt, now), time.Time{}
	if err := errors.Join(checkIDs(field{"token id", token.ID}), checkTexts(field{"name", token.Name}), checkTimes(token.CreatedAt),
		checkOneOf("role", token.Role, store.RoleViewer, store.RoleOperator, store.RoleAdmin)); err != nil {
		return store.Token{}, db.fail(tried, err)
	}
	if token.Hash == ([32]byte{}) {
		return store.Token{}, db.fail(tried, invalid("hash is not set"))
	}
	err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, 0)`,
			token.ID, token.Name, string(token.Role), token.Hash[:], micros(token.CreatedAt)); err != nil {
			return err
		}
		return t.audited(ctx, "token.create", token.ID, nil, token)
	})
	if err != nil {
		return store.Token{}, db.fail(tried, err)
	}
	return token, nil
}

// TokenByHash reads the token whose plaintext has this SHA-256, revoked or not.
func (db *DB) TokenByHash(ctx context.Context, hash [32]byte) (store.Token, error) {
	t, err := scanToken(db.queryRow(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash[:]))
	return t, db.fail("read token by hash", err)
}

// Tokens lists all tokens, revoked ones as well, newest first.
func (db *DB) Tokens(ctx context.Context, p store.Page) ([]store.Token, string, error) {
	l := listing[store.Token]{table: "tokens", columns: tokenColumns, scan: scanToken}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list tokens", err)
}

// RevokeToken ends a token at once. changed is false when it was revoked before.
func (db *DB) RevokeToken(ctx context.Context, id string) (token store.Token, changed bool, err error) {
	const tried = "revoke token"
	if err := mustBeText("token", id); err != nil {
		return token, false, db.fail(tried, err)
	}
	err = db.change(ctx, "", func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = ?`, id)
		if err != nil {
			return err
		}
		before, err := only(rows, scanToken)
		if err != nil {
			return err
		}
		token, changed = before, before.RevokedAt.IsZero()
		if !changed {
			return nil
		}
		token.RevokedAt = db.now()
		if _, err := t.exec(ctx, `UPDATE tokens SET revoked_at = ? WHERE id = ?`, micros(token.RevokedAt), id); err != nil {
			return err
		}
		return t.audited(ctx, "token.revoke", id, before, token)
	})
	if err != nil {
		return store.Token{}, false, db.fail(tried, err)
	}
	return token, changed, nil
}
