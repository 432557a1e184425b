package central

import (
	"context"
	"fmt"
	"slices"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
	"partneredge/store/valid"
)

// keptSubscription is the value kept under the idempotency key of a subscription.
// Its secret stays where it is sealed.
type keptSubscription struct {
	ID       string   `json:"id"`
	Repeated bool     `json:"repeated,omitempty"` // the answer to a repetition may have arrived
	By       []string `json:"by,omitempty"`       // the ids of these repetitions; none where they are not known
	Untold   bool     `json:"untold,omitempty"`   // the first answer did not arrive
}

// maxRepetitions bounds the repetitions whose ids are kept. With more of them their
// subscription is taken to be known.
const maxRepetitions = 16

// tell notes that a request, which brought an id of its own, is answered with the
// subscription. It reports whether that changes what is kept.
func (k *keptSubscription) tell(id string) bool {
	if id == k.ID || slices.Contains(k.By, id) || k.Repeated && len(k.By) == 0 {
		return false
	}
	k.Repeated = true
	if k.By = append(k.By, id); len(k.By) > maxRepetitions {
		k.By = nil
	}
	return true
}

// untell notes that the answer to a request did not arrive. It reports whether the
// request is one of those that were answered with the subscription.
func (k *keptSubscription) untell(id string) bool {
	if id == k.ID {
		k.Untold = true
		return true
	}
	i := slices.Index(k.By, id)
	if i < 0 {
		return false
	}
	k.By = slices.Delete(k.By, i, i+1)
	k.Repeated = len(k.By) > 0
	return true
}

func subscriptionsOf(account string) idempotency.Writes {
	return idempotency.Writes{Account: account, Noun: "subscription"}
}

// RepeatedSubscription returns the subscription that was kept in place of s under an
// idempotency key in the last 24 hours, with its secret, and sets once.Repeated; without
// one it does neither, and once ctx has ended it fails. idempotency.ErrKey when another
// one was asked for, or it was revoked or its secret rotated since: the first answer
// cannot be given again. It would name a subscription that gets nothing, and the new
// secret is not for whoever has the first request.
func (d *DB) RepeatedSubscription(ctx context.Context, s store.Subscription, once *idempotency.Request) (kept store.Subscription, err error) {
	asked := ctx
	err = d.writeTo(ctx, "repeat subscription", s.AccountID, nil, func(ctx context.Context, t *tx) error {
		if err := awaited(asked); err != nil {
			return err
		}
		return d.repeatSubscription(ctx, t, s, once, &kept)
	})
	return written(kept, err)
}

// awaited returns an error if the caller of a write, whose context this is, has given up.
func awaited(asked context.Context) error {
	if err := asked.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// repeatSubscription reads the subscription of an idempotency key into kept, and
// notes that the request for s is answered with it.
func (d *DB) repeatSubscription(ctx context.Context, t *tx, s store.Subscription, once *idempotency.Request, kept *store.Subscription) (err error) {
	var answer keptSubscription
	if err = subscriptionsOf(s.AccountID).Repeat(ctx, t.Tx, once, &answer); err != nil || !once.Repeated {
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
	if !answer.tell(s.ID) {
		return nil
	}
	return subscriptionsOf(s.AccountID).Change(ctx, t.Tx, once.Key, answer)
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

// AnsweredSubscription returns, without its secret, the subscription with which a
// repetition under an idempotency key was answered, which brought an id of its own.
// store.ErrNotFound when there was none.
func (d *DB) AnsweredSubscription(ctx context.Context, accountID, id, key string) (store.Subscription, error) {
	var answer keptSubscription
	err := subscriptionsOf(accountID).Read(ctx, d.db, key, &answer)
	if err == nil && !slices.Contains(answer.By, id) {
		err = fmt.Errorf("%w: subscription", store.ErrNotFound)
	}
	if err != nil {
		return store.Subscription{}, db.Fail("read the subscription of an idempotency key", err)
	}
	return d.Subscription(ctx, answer.ID)
}

// AbandonSubscription notes that the answer to a request under an idempotency key did
// not arrive. The request brought id, and its subscription is revoked and the key freed
// once none of the answers has arrived, unless its secret was rotated: then somebody
// knows it. One that the key does not lead to any more, a day later, is left as it
// is, for the request may have been repeated since.
func (d *DB) AbandonSubscription(ctx context.Context, accountID, id, key string) (already bool, err error) {
	const tried = "abandon subscription"
	r := revocation{id: id}
	kept := subscriptionsOf(accountID)
	err = d.writeTo(ctx, tried, accountID, valid.Reference("subscription", id), func(ctx context.Context, t *tx) error {
		r.more = false
		var answer keptSubscription
		err := kept.Read(ctx, t.Tx, key, &answer)
		if err != nil {
			return err
		}
		if !answer.untell(id) {
			r.already, err = t.isRevoked(ctx, accountID, id)
			return err
		}
		rotated, err := t.secretRotated(ctx, answer.ID)
		if err != nil {
			return err
		}
		if answer.Repeated || !answer.Untold || rotated {
			if err = kept.Change(ctx, t.Tx, key, answer); err == nil {
				r.already, err = t.isRevoked(ctx, accountID, answer.ID)
			}
			return err
		}
		if err = kept.Free(ctx, t.Tx, key); err != nil {
			return err
		}
		r.id = answer.ID
		return r.run(ctx, t, accountID)
	})
	return r.already, d.revoked(ctx, tried, r, err)
}
