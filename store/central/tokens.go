package central

import (
	"context"
	"errors"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/valid"
)

const tokenColumns = `id, name, role, hash, created_at, revoked_at`

var tokenTable = table[store.Token]{noun: "token", from: "tokens", id: "id", columns: tokenColumns, scan: scanToken}

func scanToken(row db.Row) (t store.Token, err error) {
	err = row.Scan(&t.ID, &t.Name, &t.Role, db.Hash(&t.Hash), db.Time(&t.CreatedAt), db.Time(&t.RevokedAt))
	return t, err
}

// CreateToken lets somebody use the admin API. The id is made and creation is
// now where they are not set. ErrConflict when the id or the hash exists already.
func (d *DB) CreateToken(ctx context.Context, token store.Token) (store.Token, error) {
	const tried = "create token"
	now := d.db.Now()
	if token.ID == "" {
		token.ID = store.NewID("tok", now)
	}
	token.CreatedAt, token.RevokedAt = db.TimeOr(token.CreatedAt, now), time.Time{}
	if err := errors.Join(valid.IDs("token id", token.ID), valid.Texts("name", token.Name), valid.Times(token.CreatedAt),
		valid.OneOf("role", token.Role, store.RoleViewer, store.RoleOperator, store.RoleAdmin)); err != nil {
		return store.Token{}, db.Fail(tried, err)
	}
	if token.Hash == ([32]byte{}) {
		return store.Token{}, db.Fail(tried, valid.Errorf("hash is not set"))
	}
	err := d.change(ctx, "", func(ctx context.Context, t *tx) error {
		if _, err := t.Exec(ctx, `INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, 0)`,
			token.ID, token.Name, string(token.Role), token.Hash[:], db.Micros(token.CreatedAt)); err != nil {
			return err
		}
		return t.audited(ctx, "token.create", token.ID, nil, token)
	})
	if err != nil {
		return store.Token{}, db.Fail(tried, err)
	}
	return token, nil
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

// RevokeToken ends a token at once. changed is false when it was revoked before.
func (d *DB) RevokeToken(ctx context.Context, id string) (token store.Token, changed bool, err error) {
	const tried = "revoke token"
	if err := valid.Reference("token", id); err != nil {
		return token, false, db.Fail(tried, err)
	}
	err = d.change(ctx, "", func(ctx context.Context, t *tx) error {
		before, err := tokenTable.get(ctx, t, id)
		if err != nil {
			return err
		}
		token, changed = before, before.RevokedAt.IsZero()
		if !changed {
			return nil
		}
		token.RevokedAt = d.db.Now()
		if _, err := t.Exec(ctx, `UPDATE tokens SET revoked_at = ? WHERE id = ?`, db.Micros(token.RevokedAt), id); err != nil {
			return err
		}
		return t.audited(ctx, "token.revoke", id, before, token)
	})
	if err != nil {
		return store.Token{}, false, db.Fail(tried, err)
	}
	return token, changed, nil
}
