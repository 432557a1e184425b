package central

import (
	"context"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/valid"
)

// rotated is a rotation as the audit log shows it.
type rotated struct {
	OverlapUntil time.Time `json:"overlap_until"`
}

// RotateSecret gives a subscription a new secret. Until overlapUntil deliveries
// are signed with the one before as well; of earlier ones nothing is left. The
// same secret again changes nothing. ErrConflict when the subscription is
// revoked.
func (d *DB) RotateSecret(ctx context.Context, id, secret string, overlapUntil time.Time) (store.Subscription, error) {
	const tried = "rotate secret"
	if err := valid.Reference("subscription", id); err != nil {
		return store.Subscription{}, db.Fail(tried, err)
	}
	if secret == "" || !valid.Text(secret) || valid.Times(overlapUntil) != nil {
		return store.Subscription{}, db.Fail(tried, valid.Errorf("secret or time"))
	}
	sealed, err := d.sealer.Seal(id, secret)
	if err != nil {
		return store.Subscription{}, db.Fail(tried, err)
	}
	s, err := d.Subscription(ctx, id)
	if err != nil {
		return store.Subscription{}, db.Fail(tried, err)
	}
	err = d.change(ctx, s.AccountID, func(ctx context.Context, t *tx) error {
		s, err := d.subscriptionTable().get(ctx, t, id)
		switch {
		case err != nil:
			return err
		case !s.RevokedAt.IsZero():
			return fmt.Errorf("%w: the subscription is revoked", store.ErrConflict)
		case s.Secret == secret:
			return nil
		}
		t.deliveries.Forget(s.AccountID)
		if _, err = t.Exec(ctx, `UPDATE subscriptions SET old_secret = secret, old_until = ?, secret = ? WHERE id = ?`,
			db.Micros(overlapUntil), sealed, id); err != nil {
			return err
		}
		return t.audited(ctx, "webhook.rotate_secret", id, nil, rotated{overlapUntil})
	})
	d.EndpointsChanged()
	if err != nil {
		return store.Subscription{}, db.Fail(tried, err)
	}
	return d.Subscription(ctx, id)
}

// ResealSecrets seals anew what is not sealed with the Sealer's first key, and
// returns how many subscriptions that were. After it the other keys are not
// needed any more. When err is not nil, some may be done.
func (d *DB) ResealSecrets(ctx context.Context) (done int, err error) {
	const tried = "seal secrets anew"
	for last := int64(0); ; {
		stale, next, err := d.staleSecrets(ctx, last)
		if err != nil {
			return done, db.Fail(tried, err)
		}
		for id, account := range stale {
			if err := d.change(ctx, account, func(ctx context.Context, t *tx) error { return d.reseal(ctx, t, id) }); err != nil {
				return done, db.Fail(tried, err)
			}
			done++
		}
		if next == last {
			return done, nil
		}
		last = next
	}
}

func (d *DB) reseal(ctx context.Context, t *tx, id string) error {
	var s deliveries.Signing
	if err := t.Get(ctx, `SELECT `+deliveries.SigningColumns+` FROM subscriptions WHERE id = ?`, []any{id}, s.Scan()...); err != nil {
		return err
	}
	for _, sealed := range []*string{&s.Sealed, &s.OldSealed} {
		if *sealed == "" || d.sealer.Fresh(*sealed) {
			continue
		}
		secret, err := d.sealer.Open(id, *sealed)
		if err != nil {
			return err
		}
		if *sealed, err = d.sealer.Seal(id, secret); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, `UPDATE subscriptions SET secret = ?, old_secret = ? WHERE id = ?`, s.Sealed, s.OldSealed, id)
	return err
}

// staleSecrets finds the accounts of subscriptions whose secrets are to be sealed
// anew, among some that come after the n-th.
func (d *DB) staleSecrets(ctx context.Context, after int64) (accounts map[string]string, last int64, err error) {
	accounts, last = make(map[string]string), after
	_, err = db.All(ctx, d.db, func(row db.Row) (struct{}, error) {
		var id, account string
		var s deliveries.Signing
		err := row.Scan(append([]any{&last, &id, &account}, s.Scan()...)...)
		if !d.sealer.Fresh(s.Sealed) || (s.OldSealed != "" && !d.sealer.Fresh(s.OldSealed)) {
			accounts[id] = account
		}
		return struct{}{}, err
	}, `SELECT n, id, account_id, `+deliveries.SigningColumns+` FROM subscriptions WHERE n > ? ORDER BY n LIMIT 500`, after)
	return accounts, last, err
}
