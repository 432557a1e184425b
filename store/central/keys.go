package central

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/usage"
	"partneredge/store/valid"
)

const (
	keyColumns = `id, account_id, hash, environment, scopes, allowlist, rate_limit, label,
		created_at, expires_at, grace_until, revoked_at, successor_id`
	keyRate     = 100 // requests a minute, when not set
	keyLifetime = 365 * 24 * time.Hour
)

var (
	keyTable = db.Table[store.Key]{Noun: "key", From: "keys", ID: "id", Columns: keyColumns, Scan: scanKey}
	// listedKeys is keyTable for those who do not use the hash, which is zero if damaged.
	listedKeys = db.Table[store.Key]{Noun: "key", From: "keys", ID: "id", Columns: keyColumns, Scan: scanListedKey}
)

func scanKey(row db.Row) (store.Key, error) {
	k, err := scanListedKey(row)
	if err == nil && k.Hash == ([32]byte{}) {
		err = errors.New("the hash is damaged")
	}
	return k, err
}

func scanListedKey(row db.Row) (k store.Key, err error) {
	err = row.Scan(&k.ID, &k.AccountID, db.Hash(&k.Hash), &k.Environment, db.JSON(&k.Scopes), db.JSON(&k.Allowlist),
		&k.RateLimit, &k.Label, db.Time(&k.CreatedAt), db.Time(&k.ExpiresAt), db.Time(&k.GraceUntil),
		db.Time(&k.RevokedAt), &k.SuccessorID)
	return k, err
}

// newKey returns k, validated, with what is not set filled in.
func newKey(k store.Key, now time.Time) (store.Key, error) {
	k.ID, k.RateLimit = cmp.Or(k.ID, store.NewID("key", now)), cmp.Or(k.RateLimit, keyRate)
	k.CreatedAt = db.TimeOr(k.CreatedAt, now)
	k.ExpiresAt = db.TimeOr(k.ExpiresAt, k.CreatedAt.Add(keyLifetime))
	k.GraceUntil, k.RevokedAt, k.SuccessorID = time.Time{}, time.Time{}, ""
	if err := cmp.Or(valid.IDs("key id", k.ID, "account id", k.AccountID), valid.Texts("label", k.Label),
		valid.Environment(k.Environment), valid.Times(k.CreatedAt, k.ExpiresAt)); err != nil {
		return k, err
	}
	if k.Hash == ([32]byte{}) {
		return k, valid.Errorf("hash is not set")
	}
	if k.RateLimit < 0 || k.RateLimit > 1_000_000_000 {
		return k, valid.Errorf("rate limit is outside 1 to 1000000000")
	}
	for _, n := range k.Allowlist {
		if !n.IsValid() {
			return k, valid.Errorf("allowlist has a network that is none")
		}
	}
	if k.Allowlist == nil {
		k.Allowlist = []netip.Prefix{}
	}
	var err error
	k.Scopes, err = valid.Scopes(k.Scopes)
	return k, err
}

func (t *tx) insertKey(ctx context.Context, k store.Key) error {
	_, err := t.Exec(ctx, `INSERT INTO keys (`+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '')`,
		k.ID, k.AccountID, k.Hash[:], string(k.Environment), db.JSONText(k.Scopes), db.JSONText(k.Allowlist),
		k.RateLimit, k.Label, store.Micros(k.CreatedAt), store.Micros(k.ExpiresAt))
	return err
}

// CreateKey makes a key of an account. What is not set gets a value: the id is
// made, creation is now, expiry a year later, the rate 100 a minute.
// ErrNotFound when there is no such account, ErrConflict when the id or the
// hash exists already.
func (d *DB) CreateKey(ctx context.Context, k store.Key) (store.Key, error) {
	k, refused := newKey(k, d.db.Now())
	return written(k, d.writeTo(ctx, "create key", k.AccountID, refused, func(ctx context.Context, t *tx) error {
		if err := t.insertKey(ctx, k); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "key.create", Target: k.ID, After: auditKey(k)})
	}))
}

// Key reads one key.
func (d *DB) Key(ctx context.Context, id string) (store.Key, error) {
	return keyTable.Read(ctx, d.db, id)
}

// expiringKeys selects the keys that expire between two times and were neither revoked nor
// rotated. It repeats the condition of the partial index keys_expiring, which is of no use
// to a query without it.
const (
	expiringKeys      = `revoked_at = 0 AND grace_until = 0 AND expires_at > ? AND expires_at < ?`
	expiringKeysPage  = expiringKeys + ` AND (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?`
	countExpiringKeys = `SELECT count(*) FROM keys WHERE ` + expiringKeys + ` AND last_used_at > ?`
)

// ExpiringKeys lists the keys that work now and whose hard expiry comes before a time,
// the first to expire first. Those that were rotated are not among them.
func (d *DB) ExpiringKeys(ctx context.Context, before time.Time, p store.Page) ([]store.Key, string, error) {
	const op, name = "list expiring keys", "keys by expiry"
	if err := valid.Times(before); err != nil {
		return nil, "", db.Fail(op, err)
	}
	now, after, last := d.db.Now(), int64(0), ""
	if p.Cursor != "" {
		place, err := db.Place(name, p.Cursor)
		if err == nil {
			if _, err = fmt.Sscanf(place, "%d %s", &after, &last); err != nil {
				err = valid.Errorf("cursor")
			}
		}
		if err != nil {
			return nil, "", db.Fail(op, err)
		}
	}
	limit := db.PageLimit(p)
	keys, err := listedKeys.Some(ctx, d.db, expiringKeysPage, store.Micros(now), store.Micros(before), after, last, limit+1)
	if err != nil || len(keys) <= limit {
		return keys, "", db.Fail(op, err)
	}
	end := keys[limit-1]
	return keys[:limit], db.Cursor(name, fmt.Sprintf("%d %s", store.Micros(end.ExpiresAt), end.ID)), nil
}

// CountExpiringKeys returns how many keys have their hard expiry between two times, were neither
// revoked nor rotated, and were used in the last 90 days. No partner misses the others.
func (d *DB) CountExpiringKeys(ctx context.Context, from, before time.Time) (n int, err error) {
	err = d.db.QueryRow(ctx, countExpiringKeys,
		store.Micros(from), store.Micros(before), store.Micros(d.db.Now().Add(-usage.Kept))).Scan(&n)
	return n, db.Fail("count expiring keys", err)
}

// KeyLimit holds the limit of a key.
type KeyLimit struct {
	PerMinute int // requests
	Hash      [32]byte
}

// KeyLimits reads the limits of keys, by id. Those that do not exist, are revoked or have
// a damaged hash are left out.
func (d *DB) KeyLimits(ctx context.Context, ids []string) (map[string]KeyLimit, error) {
	asked := valid.References(ids)
	limits := make(map[string]KeyLimit)
	err := db.Each(ctx, d.db, func(row db.Row) error {
		var id string
		var limit KeyLimit
		err := row.Scan(&id, &limit.PerMinute, db.Hash(&limit.Hash))
		if limit.Hash != ([32]byte{}) {
			limits[id] = limit
		}
		return err
	}, `SELECT id, rate_limit, hash FROM keys WHERE revoked_at = 0 AND `+d.db.In("id"), d.db.Set(asked))
	return limits, db.Fail("read limits of keys", err)
}

// UnreadKeyError is the error of a key whose row is damaged. It wraps nothing: what is
// wrong with a value in the row says nothing of the request that reads it.
type UnreadKeyError struct {
	ID  string // of the key
	Why error
}

// Error names the key.
func (e UnreadKeyError) Error() string {
	return fmt.Sprintf("the row of key %s is damaged: %v", e.ID, e.Why)
}

// hashedKeys is keyTable for lookups by hash, which refuse a key that no message can hold.
var hashedKeys = db.Table[store.Key]{Noun: "key", From: "keys", ID: "id", Columns: keyColumns, Scan: func(row db.Row) (store.Key, error) {
	k, err := scanKey(row)
	if err == nil {
		err = valid.Times(k.CreatedAt, k.ExpiresAt, k.GraceUntil, k.RevokedAt)
	}
	return k, err
}}

var hashedColumns = `c.seq, k.id, k.hash, k.id IS NOT NULL, ` + db.Prefixed("k", keyColumns)

// hashedKey is a row of hashedColumns.
type hashedKey struct {
	found bool // else the row has seq alone
	seq   int64
	hash  []byte
	key   store.Key
}

// scanHashed scans a row of hashedColumns. The error is an UnreadKeyError if the key's own
// columns are what cannot be read; the others are set then.
func scanHashed(ctx context.Context, row db.Row) (h hashedKey, err error) {
	var id *string
	h.key, err = scanFound(row, hashedKeys, &h.found, &h.seq, &id, &h.hash)
	if err != nil && h.found && ctx.Err() == nil { // the end of ctx closes rows that are being scanned
		err = UnreadKeyError{*id, err}
	}
	return h, err
}

// KeyByHash reads the key whose plaintext has this SHA-256. seq is the last
// change that the answer takes in; it is set with ErrNotFound as well. The error is an
// UnreadKeyError if the key's row is damaged.
func (d *DB) KeyByHash(ctx context.Context, hash [32]byte) (k store.Key, seq int64, err error) {
	h, err := db.One(ctx, d.db.Frequent(), func(row db.Row) (hashedKey, error) {
		return scanHashed(ctx, row)
	}, `SELECT `+hashedColumns+` FROM change_counter c LEFT JOIN keys k ON k.hash = ?`, hash[:])
	if err == nil && !h.found {
		err = store.ErrNotFound
	}
	return h.key, h.seq, db.Fail("read key by hash", err)
}

// HashedKeys holds what KeysByHash reads, by hash.
type HashedKeys struct {
	Found  map[[32]byte]store.Key
	Unread map[[32]byte]UnreadKeyError // keys that there are and whose rows are damaged
	Seq    int64                       // the last change that all of them include
}

// KeysByHash reads the keys whose plaintexts have these SHA-256s, as far as there are
// any. A damaged row concerns its own key alone.
func (d *DB) KeysByHash(ctx context.Context, hashes [][]byte) (HashedKeys, error) {
	keys := HashedKeys{Found: make(map[[32]byte]store.Key, len(hashes)), Unread: make(map[[32]byte]UnreadKeyError)}
	err := db.Each(ctx, d.db.Frequent(), func(row db.Row) error {
		h, err := scanHashed(ctx, row)
		keys.Seq = h.seq
		damaged, isDamaged := errors.AsType[UnreadKeyError](err)
		switch {
		case err != nil && !isDamaged, !h.found:
		case len(h.hash) != len(store.Key{}.Hash): // which is none that was asked for
			err = nil
		case isDamaged:
			keys.Unread[[32]byte(h.hash)], err = damaged, nil
		default:
			keys.Found[h.key.Hash] = h.key
		}
		return err
	}, `SELECT `+hashedColumns+` FROM change_counter c LEFT JOIN keys k ON `+d.db.InBytes("k.hash"), d.db.SetBytes(hashes))
	return keys, db.Fail("read keys by hash", err)
}

// Keys lists the keys of an account, newest first.
func (d *DB) Keys(ctx context.Context, accountID string, p store.Page) ([]store.Key, string, error) {
	return listOf(ctx, d, listedKeys, accountID, p)
}

// RotateKey issues a successor and leaves the key valid until graceUntil, or until
// its expiry when that is earlier: its grace then ends there. The successor is of the
// same account and environment; scopes, allowlist, rate and label are the key's where
// the successor has none. ErrConflict when the key is revoked, expired or has a
// successor already.
func (d *DB) RotateKey(ctx context.Context, id string, successor store.Key, graceUntil time.Time) (next, previous store.Key, err error) {
	const op = "rotate key"
	if err := valid.Times(graceUntil); err != nil || graceUntil.IsZero() {
		return store.Key{}, store.Key{}, db.Fail(op, valid.Errorf("end of grace is not set or not a time"))
	}
	err = d.changeKey(ctx, id, func(ctx context.Context, t *tx, k store.Key) error {
		now := d.db.Now()
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
		previous.GraceUntil = db.TimeOr(graceUntil, now)
		if k.ExpiresAt.Before(previous.GraceUntil) {
			previous.GraceUntil = k.ExpiresAt
		}
		if _, err := t.Exec(ctx, `UPDATE keys SET grace_until = ?, successor_id = ? WHERE id = ?`,
			store.Micros(previous.GraceUntil), previous.SuccessorID, id); err != nil {
			return err
		}
		t.changed(store.ChangeKey, id, false)
		if err := t.audited(ctx, audit.Entry{Action: "key.create", Target: next.ID, After: auditKey(next)}); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "key.rotate", Target: id, Before: auditKey(k), After: auditKey(previous)})
	})
	if err != nil {
		return store.Key{}, store.Key{}, db.Fail(op, err)
	}
	return next, previous, nil
}

// inherited returns the successor of k with what it does not set itself.
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
func (d *DB) RevokeKey(ctx context.Context, id string) (revoked store.Key, changed bool, err error) {
	err = d.changeKey(ctx, id, func(ctx context.Context, t *tx, k store.Key) error {
		revoked, changed = k, k.RevokedAt.IsZero()
		if !changed {
			return nil
		}
		var err error
		if revoked, err = t.revokeKey(ctx, k); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "key.revoke", Target: id, Before: auditKey(k), After: auditKey(revoked)})
	})
	if err != nil {
		return store.Key{}, false, db.Fail("revoke key", err)
	}
	return revoked, changed, nil
}

// revokeKey ends a key and returns it as it is then.
func (t *tx) revokeKey(ctx context.Context, k store.Key) (store.Key, error) {
	k.RevokedAt = t.Now()
	_, err := t.Exec(ctx, `UPDATE keys SET revoked_at = ? WHERE id = ?`, store.Micros(k.RevokedAt), k.ID)
	t.changed(store.ChangeKey, k.ID, true)
	return k, err
}

// changeKey runs fn on a key as it is while the transaction holds its account.
func (d *DB) changeKey(ctx context.Context, id string, fn func(context.Context, *tx, store.Key) error) error {
	k, err := listedKeys.Read(ctx, d.db, id)
	if err != nil {
		return err
	}
	return d.change(ctx, k.AccountID, func(ctx context.Context, t *tx) error {
		k, err := listedKeys.Get(ctx, t, id)
		if err != nil {
			return err
		}
		return fn(ctx, t, k)
	})
}
