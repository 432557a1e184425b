package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"partneredge/store"
)

// subscriptionsMost is how many active subscriptions an account can have.
const subscriptionsMost = 100

const subscriptionColumns = `id, account_id, key_id, environment, target_url, events, description, secret,
	created_at, revoked_at, failing_from`

func (db *DB) scanSubscription(row scanner) (s store.Subscription, err error) {
	err = row.Scan(&s.ID, &s.AccountID, &s.KeyID, &s.Environment, &s.TargetURL, asJSON(&s.Events), &s.Description,
		&s.Secret, asTime(&s.CreatedAt), asTime(&s.RevokedAt), asTime(&s.FailingFrom))
	return db.openSecret(s, err)
}

func checkSubscription(s store.Subscription) (store.Subscription, error) {
	var err error
	if s.Events, err = distinct("event type", s.Events, store.EventInsightCreated, store.EventSentinelFired,
		store.EventDealChanged, store.EventClientContacted, store.EventGoalChanged); err != nil {
		return s, err
	}
	if len(s.Events) == 0 {
		return s, invalid("no event types")
	}
	if s.TargetURL == "" || s.Secret == "" {
		return s, invalid("target or secret is empty")
	}
	description := ""
	if s.Description != nil {
		description = *s.Description
	}
	return s, errors.Join(checkIDs(field{"subscription id", s.ID}), checkEnvironment(s.Environment), checkTimes(s.CreatedAt),
		checkTexts(field{"key id", s.KeyID}, field{"target", s.TargetURL}, field{"secret", s.Secret}, field{"description", description}))
}

// sameSubscription compares what the partner asked for.
func sameSubscription(a, b store.Subscription) bool {
	return a.AccountID == b.AccountID && a.Environment == b.Environment && a.TargetURL == b.TargetURL &&
		a.Secret == b.Secret && slices.Equal(a.Events, b.Events) &&
		(a.Description == nil) == (b.Description == nil) && (a.Description == nil || *a.Description == *b.Description)
}

// AddSubscription keeps a subscription under the id it has. The same again is
// nil and changes nothing, even when it has been revoked meanwhile; other
// content under the id is ErrConflict. ErrLimit when the account has 100 that
// are not revoked, of both environments together.
func (db *DB) AddSubscription(ctx context.Context, s store.Subscription) error {
	const tried = "add subscription"
	if err := mustBeText("account", s.AccountID); err != nil {
		return db.fail(tried, err)
	}
	s, err := checkSubscription(s)
	if err != nil {
		return db.fail(tried, err)
	}
	s.CreatedAt = timeOr(s.CreatedAt, db.now())
	sealed, err := db.sealer.Seal(s.ID, s.Secret)
	if err != nil {
		return db.fail(tried, err)
	}
	return db.fail(tried, db.change(ctx, s.AccountID, func(ctx context.Context, t *tx) error {
		have, err := t.subscription(ctx, s.ID)
		switch {
		case err == nil && sameSubscription(have, s):
			return nil
		case err == nil:
			return fmt.Errorf("%w: the id is another subscription's", store.ErrConflict)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		var active int
		if err := t.one(ctx, `SELECT count(*) FROM subscriptions WHERE account_id = ? AND revoked_at = 0`,
			[]any{s.AccountID}, &active); err != nil {
			return err
		}
		if active >= subscriptionsMost {
			return fmt.Errorf("%w: %d active subscriptions", store.ErrLimit, active)
		}
		t.forgetTargets(s.AccountID)
		_, err = t.exec(ctx, `INSERT INTO subscriptions (`+subscriptionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
			s.ID, s.AccountID, s.KeyID, string(s.Environment), s.TargetURL, jsonText(s.Events), s.Description, sealed,
			micros(s.CreatedAt))
		return err
	}))
}

func (t *tx) subscription(ctx context.Context, id string) (store.Subscription, error) {
	rows, err := t.query(ctx, `SELECT `+subscriptionColumns+` FROM subscriptions WHERE id = ?`, id)
	if err != nil {
		return store.Subscription{}, err
	}
	return only(rows, t.db.scanSubscription)
}

// RevokeSubscription ends a subscription of the account for good; already tells
// that it had been before. Events of later commits no longer go to it, and what
// waits for it is cancelled: with the revocation itself as far as one
// transaction holds, the rest before the call returns, and what a worker has
// claimed when it looks at the claim's Revoked.
func (db *DB) RevokeSubscription(ctx context.Context, accountID, id string) (already bool, err error) {
	const tried = "revoke subscription"
	if err := errors.Join(mustBeText("account", accountID), mustBeText("subscription", id)); err != nil {
		return false, db.fail(tried, err)
	}
	var cancelled int64
	err = db.change(ctx, accountID, func(ctx context.Context, t *tx) error {
		s, err := t.subscription(ctx, id)
		if err == nil && s.AccountID != accountID {
			err = sql.ErrNoRows
		}
		if err != nil {
			return err
		}
		if already = !s.RevokedAt.IsZero(); already {
			return nil
		}
		t.forgetTargets(accountID)
		if _, err := t.exec(ctx, `UPDATE subscriptions SET revoked_at = ? WHERE id = ?`, micros(db.now()), id); err != nil {
			return err
		}
		if cancelled, err = t.cancelSlice(ctx, id); err != nil {
			return err
		}
		// Deliveries of other writes in this same transaction are not in the
		// table yet, and now need not get there.
		t.cancelUnwritten(id)
		return nil
	})
	db.standings.Add(1)
	for err == nil && cancelled == cancelSlice {
		err = db.apart(ctx, func(ctx context.Context, t *tx) (err error) {
			cancelled, err = t.cancelSlice(ctx, id)
			return err
		})
	}
	return already, db.fail(tried, err)
}

// Subscription reads one subscription, with its secret.
func (db *DB) Subscription(ctx context.Context, id string) (store.Subscription, error) {
	if err := mustBeText("subscription", id); err != nil {
		return store.Subscription{}, db.fail("read subscription", err)
	}
	s, err := db.scanSubscription(db.queryRow(ctx, `SELECT `+subscriptionColumns+` FROM subscriptions WHERE id = ?`, id))
	return s, db.fail("read subscription", err)
}

// Subscriptions lists the subscriptions of an account, revoked ones as well,
// newest first, with their secrets.
func (db *DB) Subscriptions(ctx context.Context, accountID string, p store.Page) ([]store.Subscription, string, error) {
	if err := mustBeText("account", accountID); err != nil {
		return nil, "", db.fail("list subscriptions", err)
	}
	l := listing[store.Subscription]{table: "subscriptions", columns: subscriptionColumns, account: accountID, scan: db.scanSubscription}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list subscriptions", err)
}
