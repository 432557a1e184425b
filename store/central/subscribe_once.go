package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// keptSubscription is the value kept under the idempotency key of a subscription.
// Its secret stays where it is sealed.
type keptSubscription struct {
	ID       string `json:"id"`
	Repeated bool   `json:"repeated,omitempty"` // somebody was told of it since
}

func subscriptionOf(account string) ingestion {
	return ingestion{noun: "subscription", account: account}
}

// RepeatedSubscription returns the subscription that was kept under an idempotency
// key in the last 24 hours, with its secret, and sets once.Repeated; without one it
// does neither. ErrIdempotencyKey when another one was asked for, or its secret was
// rotated since: the first answer cannot be given again, and the new secret is not
// for whoever has the first request.
func (d *DB) RepeatedSubscription(ctx context.Context, accountID string, once *Idempotency) (kept store.Subscription, err error) {
	err = d.writeTo(ctx, "repeat subscription", accountID, nil, func(ctx context.Context, t *tx) error {
		return d.repeatSubscription(ctx, t, accountID, once, &kept)
	})
	return written(kept, err)
}

// repeatSubscription reads the subscription of an idempotency key into kept, and
// notes that it was read.
func (d *DB) repeatSubscription(ctx context.Context, t *tx, account string, once *Idempotency, kept *store.Subscription) (err error) {
	var answer keptSubscription
	if once.Repeated, err = t.repeat(ctx, subscriptionOf(account), once, &answer); err != nil || !once.Repeated {
		return err
	}
	rotated, err := t.secretRotated(ctx, answer.ID)
	if err == nil && rotated {
		err = ErrIdempotencyKey
	}
	if err != nil {
		once.Repeated = false
		return err
	}
	if *kept, err = d.subscriptionTable().get(ctx, t, answer.ID); err != nil || answer.Repeated {
		return err
	}
	answer.Repeated = true
	_, err = t.Exec(ctx, `UPDATE idempotency SET answer = ? WHERE account_id = ? AND name = ?`,
		db.JSONText(answer), account, subscriptionOf(account).name(once))
	return err
}

// secretRotated reports whether a subscription has another secret than at first.
func (t *tx) secretRotated(ctx context.Context, id string) (rotated bool, err error) {
	err = t.Get(ctx, `SELECT old_secret <> '' FROM subscriptions WHERE id = ?`, []any{id}, &rotated)
	return rotated, err
}

// AbandonSubscription revokes a subscription that was made under an idempotency key,
// and frees the key, unless the request was repeated since, or its
// secret rotated: then somebody knows it. One that the key does not lead to any
// more, a day later, is left as it is: nothing tells whether it was repeated.
func (d *DB) AbandonSubscription(ctx context.Context, accountID, id, key string) (already bool, err error) {
	const tried = "abandon subscription"
	more := false
	name := subscriptionOf(accountID).name(&Idempotency{Key: key})
	err = d.writeTo(ctx, tried, accountID, valid.Reference("subscription", id), func(ctx context.Context, t *tx) error {
		more = false
		var text string
		err := t.Get(ctx, `SELECT answer FROM idempotency WHERE account_id = ? AND name = ?`, []any{accountID, name}, &text)
		var answer keptSubscription
		if err == nil {
			err = json.Unmarshal([]byte(text), &answer)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the answer to an idempotency key: %w", err)
		}
		rotated := false
		if answer.ID == id {
			if rotated, err = t.secretRotated(ctx, id); err != nil {
				return err
			}
		}
		if answer.ID != id || answer.Repeated || rotated {
			already, err = d.isRevoked(ctx, t, accountID, id)
			return err
		}
		if _, err = t.Exec(ctx, `DELETE FROM idempotency WHERE account_id = ? AND name = ?`, accountID, name); err != nil {
			return err
		}
		already, more, err = d.revoke(ctx, t, accountID, id)
		return err
	})
	return already, d.revoked(ctx, tried, id, more, err)
}
