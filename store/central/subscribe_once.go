package central

import (
	"context"

	"partneredge/store"
	"partneredge/store/central/idempotency"
	"partneredge/store/valid"
)

// keptSubscription is the value kept under the idempotency key of a subscription.
// Its secret stays where it is sealed.
type keptSubscription struct {
	ID       string `json:"id"`
	Repeated bool   `json:"repeated,omitempty"` // somebody was told of it since
}

func subscriptionsOf(account string) idempotency.Writes {
	return idempotency.Writes{Account: account, Noun: "subscription"}
}

// RepeatedSubscription returns the subscription that was kept under an idempotency
// key in the last 24 hours, with its secret, and sets once.Repeated; without one it
// does neither. idempotency.ErrKey when another one was asked for, or it was revoked or
// its secret rotated since: the first answer cannot be given again. It would name a
// subscription that gets nothing, and the new secret is not for whoever has the first
// request.
func (d *DB) RepeatedSubscription(ctx context.Context, accountID string, once *idempotency.Request) (kept store.Subscription, err error) {
	err = d.writeTo(ctx, "repeat subscription", accountID, nil, func(ctx context.Context, t *tx) error {
		return d.repeatSubscription(ctx, t, accountID, once, &kept)
	})
	return written(kept, err)
}

// repeatSubscription reads the subscription of an idempotency key into kept, and
// notes that it was read.
func (d *DB) repeatSubscription(ctx context.Context, t *tx, account string, once *idempotency.Request, kept *store.Subscription) (err error) {
	var answer keptSubscription
	if err = subscriptionsOf(account).Repeat(ctx, t.Tx, once, &answer); err != nil || !once.Repeated {
		return err
	}
	over, err := t.isOver(ctx, answer.ID)
	switch {
	case err != nil:
	case over:
		err = idempotency.ErrKey
	default:
		*kept, err = d.withSecret(ctx, t, answer.ID)
	}
	if err != nil {
		once.Repeated = false
		return err
	}
	if answer.Repeated {
		return nil
	}
	answer.Repeated = true
	return subscriptionsOf(account).Change(ctx, t.Tx, once.Key, answer)
}

// isOver reports whether a subscription was revoked, or has another secret than at first. The
// secret, which may not open, is not needed for that.
func (t *tx) isOver(ctx context.Context, id string) (over bool, err error) {
	err = t.Get(ctx, `SELECT old_secret <> '' OR revoked_at <> 0 FROM subscriptions WHERE id = ?`, []any{id}, &over)
	return over, err
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
	kept := subscriptionsOf(accountID)
	err = d.writeTo(ctx, tried, accountID, valid.Reference("subscription", id), func(ctx context.Context, t *tx) error {
		more = false
		var answer keptSubscription
		err := kept.Read(ctx, t.Tx, key, &answer)
		if err != nil {
			return err
		}
		rotated := false
		if answer.ID == id {
			if rotated, err = t.secretRotated(ctx, id); err != nil {
				return err
			}
		}
		if answer.ID != id || answer.Repeated || rotated {
			already, err = t.isRevoked(ctx, accountID, id)
			return err
		}
		if err = kept.Free(ctx, t.Tx, key); err != nil {
			return err
		}
		already, more, err = d.revoke(ctx, t, accountID, id)
		return err
	})
	return already, d.revoked(ctx, tried, id, more, err)
}
