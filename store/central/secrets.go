package central

import (
	"context"
	"fmt"
	"time"

	"partneredge/store"
)

// Sealer encrypts the signing secrets of subscriptions, bound to their ids.
type Sealer interface {
	Seal(id, secret string) (sealed string, err error)
	Open(id, sealed string) (secret string, err error)
	Fresh(sealed string) bool // false: it should be sealed anew
}

// plain keeps secrets as they are.
type plain struct{}

func (plain) Seal(_, secret string) (string, error) { return secret, nil }
func (plain) Open(_, sealed string) (string, error) { return sealed, nil }
func (plain) Fresh(string) bool                     { return true }

// signing is the columns of a subscription that its secrets are made of.
type signing struct {
	sealed, oldSealed string
	oldUntil          time.Time
}

const signingColumns = `secret, old_secret, old_until`

func (s *signing) scan() []any { return []any{&s.sealed, &s.oldSealed, asTime(&s.oldUntil)} }

// secrets that sign for a subscription now, the newest first. What cannot be
// opened is missing, and is logged: it must keep no other subscription waiting.
func (db *DB) secrets(id string, s signing) []string {
	sealed := []string{s.sealed}
	if s.oldSealed != "" && db.now().Before(s.oldUntil) {
		sealed = append(sealed, s.oldSealed)
	}
	var all []string
	for _, text := range sealed {
		secret, err := db.sealer.Open(id, text)
		if err != nil {
			db.log.Error("cannot open signing secret", "subscription", id, "err", err)
			continue
		}
		all = append(all, secret)
	}
	return all
}

// rotated is what the audit log shows of a rotation.
type rotated struct {
	OverlapUntil time.Time `json:"overlap_until"`
}

// RotateSecret gives a subscription a new secret. Until overlapUntil deliveries
// are signed with the one before as well; of earlier ones nothing is left. The
// same secret again changes nothing. ErrConflict when the subscription is
// revoked.
func (db *DB) RotateSecret(ctx context.Context, id, secret string, overlapUntil time.Time) (store.Subscription, error) {
	const tried = "rotate secret"
	if err := mustBeText("subscription", id); err != nil {
		return store.Subscription{}, db.fail(tried, err)
	}
	if secret == "" || !validText(secret) || checkTimes(overlapUntil) != nil {
		return store.Subscription{}, db.fail(tried, invalid("secret or time"))
	}
	sealed, err := db.sealer.Seal(id, secret)
	if err != nil {
		return store.Subscription{}, db.fail(tried, err)
	}
	s, err := db.Subscription(ctx, id)
	if err != nil {
		return store.Subscription{}, db.fail(tried, err)
	}
	err = db.change(ctx, s.AccountID, func(ctx context.Context, t *tx) error {
		s, err := t.subscription(ctx, id)
		switch {
		case err != nil:
			return err
		case !s.RevokedAt.IsZero():
			return fmt.Errorf("%w: the subscription is revoked", store.ErrConflict)
		case s.Secret == secret:
			return nil
		}
		t.forgetTargets(s.AccountID)
		if _, err = t.exec(ctx, `UPDATE subscriptions SET old_secret = secret, old_until = ?, secret = ? WHERE id = ?`,
			micros(overlapUntil), sealed, id); err != nil {
			return err
		}
		return t.audited(ctx, "webhook.rotate_secret", id, nil, rotated{overlapUntil})
	})
	db.standings.Add(1)
	if err != nil {
		return store.Subscription{}, db.fail(tried, err)
	}
	return db.Subscription(ctx, id)
}

// ResealSecrets seals anew what is not sealed with the Sealer's first key, and
// returns how many subscriptions that were. After it the other keys are not
// needed any more. When err is not nil, some may be done.
func (db *DB) ResealSecrets(ctx context.Context) (done int, err error) {
	const tried = "seal secrets anew"
	last := int64(0)
	for {
		stale, next, err := db.staleSecrets(ctx, last)
		if err != nil {
			return done, db.fail(tried, err)
		}
		for id, account := range stale {
			err := db.change(ctx, account, func(ctx context.Context, t *tx) error {
				var s signing
				if err := t.one(ctx, `SELECT `+signingColumns+` FROM subscriptions WHERE id = ?`, []any{id}, s.scan()...); err != nil {
					return err
				}
				for _, sealed := range []*string{&s.sealed, &s.oldSealed} {
					if err := db.reseal(id, sealed); err != nil {
						return err
					}
				}
				_, err := t.exec(ctx, `UPDATE subscriptions SET secret = ?, old_secret = ? WHERE id = ?`, s.sealed, s.oldSealed, id)
				return err
			})
			if err != nil {
				return done, db.fail(tried, err)
			}
			done++
		}
		if next == last {
			return done, nil
		}
		last = next
	}
}

func (db *DB) reseal(id string, sealed *string) error {
	if *sealed == "" || db.sealer.Fresh(*sealed) {
		return nil
	}
	secret, err := db.sealer.Open(id, *sealed)
	if err == nil {
		*sealed, err = db.sealer.Seal(id, secret)
	}
	return err
}

// staleSecrets looks through the subscriptions after the n-th, some at a time.
func (db *DB) staleSecrets(ctx context.Context, after int64) (accounts map[string]string, last int64, err error) {
	rows, err := db.query(ctx, `SELECT n, id, account_id, `+signingColumns+` FROM subscriptions WHERE n > ? ORDER BY n LIMIT 500`, after)
	if err != nil {
		return nil, after, err
	}
	defer func() { _ = rows.Close() }()
	accounts, last = make(map[string]string), after
	for rows.Next() {
		var id, account string
		var s signing
		if err := rows.Scan(append([]any{&last, &id, &account}, s.scan()...)...); err != nil {
			return nil, after, err
		}
		if !db.sealer.Fresh(s.sealed) || (s.oldSealed != "" && !db.sealer.Fresh(s.oldSealed)) {
			accounts[id] = account
		}
	}
	return accounts, last, rows.Err()
}

// openSecret puts the secret itself into a subscription that was just read.
func (db *DB) openSecret(s store.Subscription, err error) (store.Subscription, error) {
	if err == nil {
		s.Secret, err = db.sealer.Open(s.ID, s.Secret)
	}
	return s, err
}
