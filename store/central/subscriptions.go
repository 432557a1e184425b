package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
	"partneredge/store/valid"
)

// subscriptionsMost bounds the active subscriptions of an account in each environment, so that
// test keys leave the live ones theirs.
const subscriptionsMost = 100

const subscriptionColumns = `id, account_id, key_id, environment, target_url, events, description,
	created_at, revoked_at, failing_from`

var subscriptionTable = db.Table[store.Subscription]{Noun: "subscription", From: "subscriptions", ID: "id", Columns: subscriptionColumns, Scan: scanSubscription}

// scanSubscription scans a subscription without its secret, which hardly anybody needs and
// which may not open.
func scanSubscription(row db.Row) (s store.Subscription, err error) {
	err = row.Scan(&s.ID, &s.AccountID, &s.KeyID, &s.Environment, &s.TargetURL, db.JSON(&s.Events), &s.Description,
		db.Time(&s.CreatedAt), db.Time(&s.RevokedAt), db.Time(&s.FailingFrom))
	return s, err
}

// withSecret reads a subscription with its secret as it is used.
func (d *DB) withSecret(ctx context.Context, t *tx, id string) (s store.Subscription, err error) {
	if s, err = subscriptionTable.Get(ctx, t, id); err != nil {
		return s, err
	}
	var sealed string
	if err = t.Get(ctx, `SELECT secret FROM subscriptions WHERE id = ?`, []any{id}, &sealed); err == nil {
		s.Secret, err = d.sealer.Open(id, sealed)
	}
	return s, err
}

func validateSubscription(s store.Subscription) (store.Subscription, error) {
	var err error
	if s.Events, err = valid.Distinct("event type", s.Events, store.EventInsightCreated, store.EventSentinelFired,
		store.EventDealChanged, store.EventClientContacted, store.EventGoalChanged); err != nil {
		return s, err
	}
	if len(s.Events) == 0 {
		return s, valid.Errorf("no event types")
	}
	if s.TargetURL == "" || s.Secret == "" {
		return s, valid.Errorf("target or secret is empty")
	}
	description := ""
	if s.Description != nil {
		description = *s.Description
	}
	return s, errors.Join(valid.IDs("subscription id", s.ID), valid.Environment(s.Environment), valid.Times(s.CreatedAt),
		valid.Texts("key id", s.KeyID, "target", s.TargetURL, "secret", s.Secret, "description", description))
}

// sameSubscription compares what the partner asked for.
func sameSubscription(a, b store.Subscription) bool {
	return a.AccountID == b.AccountID && a.Environment == b.Environment && a.TargetURL == b.TargetURL &&
		a.Secret == b.Secret && slices.Equal(a.Events, b.Events) &&
		(a.Description == nil) == (b.Description == nil) && (a.Description == nil || *a.Description == *b.Description)
}

// AddSubscription is Subscribe without an idempotency key.
func (d *DB) AddSubscription(ctx context.Context, s store.Subscription) error {
	_, err := d.Subscribe(ctx, s, nil)
	return err
}

// Subscribe keeps a subscription under the id it has, and returns it. The same
// again is nil and changes nothing, even when it has been revoked meanwhile; other
// content under the id is ErrConflict. ErrLimit when the account has 100 of
// the same environment that are not revoked. Once ctx has ended it is not
// kept any more, although the database was busy until then.
//
// If once is not nil, a subscription that was kept under the same idempotency key
// is returned in its place, with its secret.
func (d *DB) Subscribe(ctx context.Context, s store.Subscription, once *idempotency.Request) (kept store.Subscription, err error) {
	const tried = "add subscription"
	if err := valid.Reference("account", s.AccountID); err != nil {
		return kept, db.Fail(tried, err)
	}
	if s, err = validateSubscription(s); err != nil {
		return kept, db.Fail(tried, err)
	}
	s.CreatedAt = db.TimeOr(s.CreatedAt, d.db.Now())
	sealed, err := d.sealer.Seal(s.ID, s.Secret)
	if err != nil {
		return kept, db.Fail(tried, err)
	}
	asked := ctx
	err = d.writeTo(ctx, tried, s.AccountID, nil, func(ctx context.Context, t *tx) error {
		if err := awaited(asked); err != nil {
			return err
		}
		kept = s
		if once == nil {
			return d.insertSubscription(ctx, t, s, sealed)
		}
		if err := d.repeatSubscription(ctx, t, s, once, &kept); err != nil || once.Repeated {
			return err
		}
		if err := d.insertSubscription(ctx, t, s, sealed); err != nil {
			return err
		}
		return subscriptionsOf(s.AccountID).Keep(ctx, t.Tx, once, keptSubscription{ID: s.ID})
	})
	return written(kept, err)
}

func (d *DB) insertSubscription(ctx context.Context, t *tx, s store.Subscription, sealed string) error {
	have, err := d.withSecret(ctx, t, s.ID)
	switch {
	case err == nil && sameSubscription(have, s):
		return nil
	case err == nil:
		return fmt.Errorf("%w: the id is another subscription's", store.ErrConflict)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var active int
	if err := t.Get(ctx, `SELECT count(*) FROM subscriptions WHERE account_id = ? AND environment = ? AND revoked_at = 0`,
		[]any{s.AccountID, string(s.Environment)}, &active); err != nil {
		return err
	}
	if active >= subscriptionsMost {
		return fmt.Errorf("%w: %d active subscriptions in %s", store.ErrLimit, active, s.Environment)
	}
	t.deliveries.Forget(s.AccountID)
	_, err = t.Exec(ctx, `INSERT INTO subscriptions (`+subscriptionColumns+`, secret) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?)`,
		s.ID, s.AccountID, s.KeyID, string(s.Environment), s.TargetURL, db.JSONText(s.Events), s.Description,
		store.Micros(s.CreatedAt), sealed)
	return err
}

// RevokeSubscription ends a subscription of the account for good; already reports
// that it had been before. Events of later commits no longer go to it, and what
// waits for it is cancelled: with the revocation itself as far as one
// transaction holds, the rest before the call returns, and what a sender has
// claimed when it looks at the endpoint. Where the call was cut short, the same
// again cancels what it left.
func (d *DB) RevokeSubscription(ctx context.Context, accountID, id string) (already bool, err error) {
	const tried = "revoke subscription"
	r := revocation{id: id}
	err = d.writeTo(ctx, tried, accountID, valid.Reference("subscription", id), func(ctx context.Context, t *tx) error {
		return r.run(ctx, t, accountID)
	})
	return r.already, d.revoked(ctx, tried, r, err)
}

// revocation is that of a subscription, by a transaction.
type revocation struct {
	id      string
	already bool // it was revoked before
	more    bool // deliveries may be left to cancel
	wrote   bool // by any run, since one whose commit failed may have been committed
}

// run revokes the subscription of the account.
func (r *revocation) run(ctx context.Context, t *tx, account string) (err error) {
	if r.already, err = t.isRevoked(ctx, account, r.id); err != nil || r.already {
		r.more = r.already // where that revocation was cut short
		return err
	}
	r.wrote = true
	now := t.Now()
	if _, err := t.Exec(ctx, `UPDATE subscriptions SET revoked_at = ? WHERE id = ?`, store.Micros(now), r.id); err != nil {
		return err
	}
	if err := t.audited(ctx, audit.Entry{Action: "webhook.revoke", Target: r.id, After: ended{now}}); err != nil {
		return err
	}
	r.more, err = t.deliveries.Cancel(ctx, account, r.id)
	return err
}

// ended is the end of a subscription, or of an erased account's key, as the audit log shows it.
type ended struct {
	RevokedAt time.Time `json:"revoked_at"`
}

// revoked does what follows the transaction of a revocation, which ended with err. One that
// wrote nothing has no endpoint read again.
func (d *DB) revoked(ctx context.Context, tried string, r revocation, err error) error {
	if r.wrote {
		d.EndpointsChanged()
	}
	if err == nil && r.more {
		err = db.Fail(tried, d.CancelRest(ctx, r.id))
	}
	return err
}

// isRevoked reports whether a subscription of the account is revoked.
func (t *tx) isRevoked(ctx context.Context, account, id string) (bool, error) {
	s, err := subscriptionTable.Get(ctx, t, id)
	if err == nil && s.AccountID != account {
		err = sql.ErrNoRows
	}
	return !s.RevokedAt.IsZero(), err
}

// Subscription reads one subscription, without its secret.
func (d *DB) Subscription(ctx context.Context, id string) (store.Subscription, error) {
	return subscriptionTable.Read(ctx, d.db, id)
}

// Subscriptions lists the subscriptions of an account, revoked ones as well,
// newest first, without their secrets.
func (d *DB) Subscriptions(ctx context.Context, accountID string, p store.Page) ([]store.Subscription, string, error) {
	return listOf(ctx, d, subscriptionTable, accountID, p)
}

// ActiveSubscriptionsOf lists the subscriptions that were made with a key and are not
// revoked, oldest first, without their secrets.
func (d *DB) ActiveSubscriptionsOf(ctx context.Context, k store.Key) ([]store.Subscription, error) {
	all, err := subscriptionTable.Some(ctx, d.db, `account_id = ? AND revoked_at = 0 AND key_id = ? ORDER BY n`, k.AccountID, k.ID)
	return all, db.Fail("list a key's subscriptions", err)
}

// rotated is a rotation as the audit log shows it.
type rotated struct {
	OverlapUntil time.Time `json:"overlap_until"`
}

// RotateSecret gives a subscription a new secret. Until overlapUntil deliveries
// are signed with the one before as well, if it can be opened; of earlier ones nothing
// is left. The same secret again changes nothing. ErrConflict when the subscription is
// revoked, or when an overlap already runs and overlapUntil is to come: a rotation whose
// answer was lost is repeated, and would drop the only secret that the partner has.
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
	err = d.change(ctx, s.AccountID, func(ctx context.Context, t *tx) (err error) {
		s, err = subscriptionTable.Get(ctx, t, id)
		switch {
		case err != nil:
			return err
		case !s.RevokedAt.IsZero():
			return fmt.Errorf("%w: the subscription is revoked", store.ErrConflict)
		}
		var before deliveries.Signing
		if err := t.Get(ctx, `SELECT `+deliveries.SigningColumns+` FROM subscriptions WHERE id = ?`, []any{id}, before.Scan()...); err != nil {
			return err
		}
		if opened, err := d.sealer.Open(id, before.Sealed); err == nil && opened == secret {
			return nil
		}
		if now := t.Now(); now.Before(before.OldUntil) && now.Before(overlapUntil) {
			return fmt.Errorf("%w: the secret before the last rotation signs until %s: wait until then, or rotate without an overlap, which ends it at once",
				store.ErrConflict, before.OldUntil.UTC().Format(time.RFC3339))
		}
		t.deliveries.Forget(s.AccountID)
		if _, err = t.Exec(ctx, `UPDATE subscriptions SET old_secret = secret, old_until = ?, secret = ? WHERE id = ?`,
			store.Micros(overlapUntil), sealed, id); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "webhook.rotate_secret", Target: id, After: rotated{overlapUntil}})
	})
	d.EndpointsChanged()
	return written(s, db.Fail(tried, err))
}

// ResealSecrets seals anew what is not sealed with the Sealer's first key, and
// returns how many subscriptions that were. After it the other keys are not
// needed any more. It logs secrets that are damaged, and leaves them as they are.
// When err is not nil, some may be done; deliveries.ErrNoKey: the Sealer lacks a key.
func (d *DB) ResealSecrets(ctx context.Context) (done int, err error) {
	const tried = "seal secrets anew"
	for last := int64(0); ; {
		stale, next, err := d.staleSecrets(ctx, last)
		if err != nil {
			return done, db.Fail(tried, err)
		}
		for id, account := range stale {
			anew := false
			if err := d.change(ctx, account, func(ctx context.Context, t *tx) (err error) {
				anew, err = d.reseal(ctx, t, id)
				return err
			}); err != nil {
				return done, db.Fail(tried, err)
			}
			if anew {
				done++
			}
		}
		if next == last {
			return done, nil
		}
		last = next
	}
}

// reseal reports whether it sealed any secret of a subscription anew.
func (d *DB) reseal(ctx context.Context, t *tx, id string) (anew bool, err error) {
	var s deliveries.Signing
	err = t.Get(ctx, `SELECT `+deliveries.SigningColumns+` FROM subscriptions WHERE id = ?`, []any{id}, s.Scan()...)
	switch {
	case errors.Is(err, sql.ErrNoRows): // removed since it was listed
		return false, nil
	case err != nil:
		return false, err
	}
	for _, sealed := range []*string{&s.Sealed, &s.OldSealed} {
		if *sealed == "" || d.sealer.Fresh(*sealed) {
			continue
		}
		secret, err := d.sealer.Open(id, *sealed)
		switch {
		case errors.Is(err, deliveries.ErrNoKey):
			return false, err
		case err != nil:
			d.log.Error("cannot seal signing secret anew", "subscription", id, "err", err)
			continue
		}
		if *sealed, err = d.sealer.Seal(id, secret); err != nil {
			return false, err
		}
		anew = true
	}
	if !anew {
		return false, nil
	}
	_, err = t.Exec(ctx, `UPDATE subscriptions SET secret = ?, old_secret = ? WHERE id = ?`, s.Sealed, s.OldSealed, id)
	return true, err
}

// staleSecrets finds the accounts of subscriptions whose secrets are to be sealed
// anew, among some that come after the n-th.
func (d *DB) staleSecrets(ctx context.Context, after int64) (accounts map[string]string, last int64, err error) {
	accounts, last = make(map[string]string), after
	err = db.Each(ctx, d.db, func(row db.Row) error {
		var id, account string
		var s deliveries.Signing
		err := row.Scan(append([]any{&last, &id, &account}, s.Scan()...)...)
		if !d.sealer.Fresh(s.Sealed) || (s.OldSealed != "" && !d.sealer.Fresh(s.OldSealed)) {
			accounts[id] = account
		}
		return err
	}, `SELECT n, id, account_id, `+deliveries.SigningColumns+` FROM subscriptions WHERE n > ? ORDER BY n LIMIT 500`, after)
	return accounts, last, err
}
