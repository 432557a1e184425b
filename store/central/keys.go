package central

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"partneredge/store"
)

const (
	keyColumns = `id, account_id, hash, environment, scopes, allowlist, rate_limit, label,
		created_at, expires_at, grace_until, revoked_at, successor_id`
	keyRate     = 100 // requests a minute, when not set
	keyLifetime = 365 * 24 * time.Hour
)

func scanKey(row scanner) (k store.Key, err error) {
	err = row.Scan(&k.ID, &k.AccountID, hashColumn{&k.Hash}, &k.Environment, asJSON(&k.Scopes), asJSON(&k.Allowlist),
		&k.RateLimit, &k.Label, asTime(&k.CreatedAt), asTime(&k.ExpiresAt), asTime(&k.GraceUntil),
		asTime(&k.RevokedAt), &k.SuccessorID)
	return k, err
}

// newKey is k with what is not set filled in, checked.
func newKey(k store.Key, now time.Time) (store.Key, error) {
	if k.ID == "" {
		k.ID = store.NewID("key", now)
	}
	if k.RateLimit == 0 {
		k.RateLimit = keyRate
	}
	k.CreatedAt = timeOr(k.CreatedAt, now)
	k.ExpiresAt = timeOr(k.ExpiresAt, k.CreatedAt.Add(keyLifetime))
	k.GraceUntil, k.RevokedAt, k.SuccessorID = time.Time{}, time.Time{}, ""
	if err := checkIDs(field{"key id", k.ID}, field{"account id", k.AccountID}); err != nil {
		return k, err
	}
	if err := checkTexts(field{"label", k.Label}); err != nil {
		return k, err
	}
	if err := checkEnvironment(k.Environment); err != nil {
		return k, err
	}
	if k.Hash == ([32]byte{}) {
		return k, invalid("hash is not set")
	}
	if k.RateLimit < 0 || k.RateLimit > 1_000_000_000 {
		return k, invalid("rate limit is outside 1 to 1000000000")
	}
	for _, n := range k.Allowlist {
		if !n.IsValid() {
			return k, invalid("allowlist has a network that is none")
		}
	}
	if k.Allowlist == nil {
		k.Allowlist = []netip.Prefix{}
	}
	var err error
	if k.Scopes, err = distinct("scope", k.Scopes, store.ScopeReadAgent, store.ScopeReadCoaching,
		store.ScopeReadSentinels, store.ScopeWriteWebhooks, store.ScopeWriteLeads); err != nil {
		return k, err
	}
	return k, checkTimes(k.CreatedAt, k.ExpiresAt)
}

func (t *tx) insertKey(ctx context.Context, k store.Key) error {
	_, err := t.exec(ctx, `INSERT INTO keys (`+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '')`,
		k.ID, k.AccountID, k.Hash[:], string(k.Environment), jsonText(k.Scopes), jsonText(k.Allowlist),
		k.RateLimit, k.Label, micros(k.CreatedAt), micros(k.ExpiresAt))
	return err
}

// CreateKey makes a key of an account. What is not set gets a value: the id is
// made, creation is now, expiry a year later, the rate 100 a minute.
// ErrNotFound when there is no such account, ErrConflict when the id or the
// hash is taken.
func (db *DB) CreateKey(ctx context.Context, k store.Key) (store.Key, error) {
	const tried = "create key"
	if err := mustBeText("account", k.AccountID); err != nil {
		return store.Key{}, db.fail(tried, err)
	}
	k, err := newKey(k, db.now())
	if err != nil {
		return store.Key{}, db.fail(tried, err)
	}
	if err := db.change(ctx, k.AccountID, func(ctx context.Context, t *tx) error {
		if err := t.insertKey(ctx, k); err != nil {
			return err
		}
		return t.audited(ctx, "key.create", k.ID, nil, auditKey(k))
	}); err != nil {
		return store.Key{}, db.fail(tried, err)
	}
	return k, nil
}

// Key reads one key.
func (db *DB) Key(ctx context.Context, id string) (store.Key, error) {
	if err := mustBeText("key", id); err != nil {
		return store.Key{}, db.fail("read key", err)
	}
	k, err := scanKey(db.queryRow(ctx, `SELECT `+keyColumns+` FROM keys WHERE id = ?`, id))
	return k, db.fail("read key", err)
}

// KeyLimits reads how many requests a minute each of these keys may make. Those
// that do not exist or are revoked are left out.
func (db *DB) KeyLimits(ctx context.Context, ids []string) (map[string]int, error) {
	const tried = "read limits of keys"
	var asked []string
	for _, id := range ids {
		if mustBeText("key", id) == nil { // what is none is no key's id
			asked = append(asked, id)
		}
	}
	limits := make(map[string]int, len(asked))
	if len(asked) == 0 {
		return limits, nil
	}
	rows, err := db.query(ctx, `SELECT id, rate_limit FROM keys WHERE revoked_at = 0 AND `+db.in("id"), db.set(asked))
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var limit int
		if err := rows.Scan(&id, &limit); err != nil {
			return nil, db.fail(tried, err)
		}
		limits[id] = limit
	}
	return limits, db.fail(tried, rows.Err())
}

// KeyByHash reads the key whose plaintext has this SHA-256. seq is the last
// change that the answer takes in; it is set with ErrNotFound as well.
func (db *DB) KeyByHash(ctx context.Context, hash [32]byte) (k store.Key, seq int64, err error) {
	const tried = "read key by hash"
	rows, err := db.query(ctx, `SELECT c.seq, k.id IS NOT NULL, `+prefixed("k", keyColumns)+`
		FROM change_counter c LEFT JOIN keys k ON k.hash = ?`, hash[:])
	if err != nil {
		return store.Key{}, 0, db.fail(tried, err)
	}
	row, err := only(rows, func(row scanner) (seen[store.Key], error) {
		return scanSeen(row, len(columnNames(keyColumns)), scanKey)
	})
	if err == nil && !row.found {
		err = store.ErrNotFound
	}
	return row.record, row.seq, db.fail(tried, err)
}

// Keys lists the keys of an account, newest first.
func (db *DB) Keys(ctx context.Context, accountID string, p store.Page) ([]store.Key, string, error) {
	if err := mustBeText("account", accountID); err != nil {
		return nil, "", db.fail("list keys", err)
	}
	l := listing[store.Key]{table: "keys", columns: keyColumns, account: accountID, scan: scanKey}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list keys", err)
}

// RotateKey issues a successor and leaves the key valid until graceUntil (or
// its expiry, when that is earlier). The successor is of the same account and
// environment; scopes, allowlist, rate and label are the key's where the
// successor has none. ErrConflict when the key is revoked, expired or has a
// successor already.
func (db *DB) RotateKey(ctx context.Context, id string, successor store.Key, graceUntil time.Time) (next, previous store.Key, err error) {
	const tried = "rotate key"
	if err := checkTimes(graceUntil); err != nil || graceUntil.IsZero() {
		return store.Key{}, store.Key{}, db.fail(tried, invalid("end of grace is not set or not a time"))
	}
	err = db.changeKey(ctx, id, func(ctx context.Context, t *tx, k store.Key) error {
		now := db.now()
		switch {
		case !k.RevokedAt.IsZero():
			return fmt.Errorf("%w: the key is revoked", store.ErrConflict)
		case !k.ExpiresAt.After(now):
			return fmt.Errorf("%w: the key has expired", store.ErrConflict)
		case k.SuccessorID != "":
			return fmt.Errorf("%w: the key has been rotated", store.ErrConflict)
		}
		var err error
		if next, err = newKey(inherited(successor, k), now); err != nil {
			return err
		}
		if err := t.insertKey(ctx, next); err != nil {
			return err
		}
		previous = k
		previous.SuccessorID = next.ID
		previous.GraceUntil = timeOr(graceUntil, now)
		if _, err := t.exec(ctx, `UPDATE keys SET grace_until = ?, successor_id = ? WHERE id = ?`,
			micros(previous.GraceUntil), previous.SuccessorID, id); err != nil {
			return err
		}
		t.changed(store.ChangeKey, id, false)
		if err := t.audited(ctx, "key.create", next.ID, nil, auditKey(next)); err != nil {
			return err
		}
		return t.audited(ctx, "key.rotate", id, auditKey(k), auditKey(previous))
	})
	if err != nil {
		return store.Key{}, store.Key{}, db.fail(tried, err)
	}
	return next, previous, nil
}

// inherited is the successor of k with what it does not set itself.
func inherited(successor, k store.Key) store.Key {
	successor.AccountID, successor.Environment = k.AccountID, k.Environment
	if successor.Scopes == nil {
		successor.Scopes = slices.Clone(k.Scopes)
	}
	if successor.Allowlist == nil {
		successor.Allowlist = slices.Clone(k.Allowlist)
	}
	if successor.RateLimit == 0 {
		successor.RateLimit = k.RateLimit
	}
	if successor.Label == "" {
		successor.Label = k.Label
	}
	return successor
}

// RevokeKey ends a key at once. changed is false when it was revoked before.
func (db *DB) RevokeKey(ctx context.Context, id string) (revoked store.Key, changed bool, err error) {
	err = db.changeKey(ctx, id, func(ctx context.Context, t *tx, k store.Key) error {
		revoked, changed = k, k.RevokedAt.IsZero()
		if !changed {
			return nil
		}
		revoked.RevokedAt = db.now()
		if _, err := t.exec(ctx, `UPDATE keys SET revoked_at = ? WHERE id = ?`, micros(revoked.RevokedAt), id); err != nil {
			return err
		}
		t.changed(store.ChangeKey, id, true)
		return t.audited(ctx, "key.revoke", id, auditKey(k), auditKey(revoked))
	})
	if err != nil {
		return store.Key{}, false, db.fail("revoke key", err)
	}
	return revoked, changed, nil
}

// changeKey runs fn on a key as it is while its account is held.
func (db *DB) changeKey(ctx context.Context, id string, fn func(context.Context, *tx, store.Key) error) error {
	k, err := db.Key(ctx, id)
	if err != nil {
		return err
	}
	return db.change(ctx, k.AccountID, func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, `SELECT `+keyColumns+` FROM keys WHERE id = ?`, id)
		if err != nil {
			return err
		}
		k, err := only(rows, scanKey)
		if err != nil {
			return err
		}
		return fn(ctx, t, k)
	})
}
