package deliveries

import (
	"context"
	"fmt"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

// requeue makes deliveries pending and due at once. Their schedule begins anew;
// the numbers of their attempts go on.
func (b *Batch) requeue() string {
	return `UPDATE deliveries SET state = 'pending', tries_before = attempts, next_at = ?, due_at = ?, lease_owner = '', updated_at = ?` +
		b.store.written() + ` `
}

// Retry queues a delivered, dead or cancelled delivery once more, and makes one that
// waits for its next try due at once. It returns the state before; changed is false
// for a delivery that is due already, which stays as it is. ErrConflict when its
// subscription is revoked, or its account is not live. The transaction must hold the
// account.
func (b *Batch) Retry(ctx context.Context, id string) (before store.State, changed bool, err error) {
	var subscription string
	if err := b.tx.Get(ctx, `SELECT state, subscription_id FROM deliveries WHERE id = ?`, []any{id}, &before, &subscription); err != nil {
		return "", false, err
	}
	if err := b.mustBeDeliverable(ctx, subscription); err != nil {
		return before, false, err
	}
	now := store.Micros(b.tx.Now())
	var touched int64
	if before == store.StatePending { // what a sender holds is leased, or was due before
		touched, err = b.tx.Exec(ctx, `UPDATE deliveries SET next_at = ?, due_at = ?, updated_at = ?`+b.store.written()+`
			WHERE id = ? AND state = 'pending' AND lease_owner = '' AND next_at > ?`, now, now, now, id, now)
	} else {
		touched, err = b.tx.Exec(ctx, b.requeue()+`WHERE id = ? AND state <> 'pending'`, now, now, now, id)
	}
	b.requeues(subscription, now, touched)
	return before, touched > 0, err
}

func (b *Batch) mustBeDeliverable(ctx context.Context, subscription string) error {
	var revokedAt time.Time
	var mode store.Mode
	err := b.tx.Get(ctx, `SELECT s.revoked_at, a.mode FROM subscriptions s JOIN accounts a ON a.id = s.account_id WHERE s.id = ?`,
		[]any{subscription}, db.Time(&revokedAt), &mode)
	switch {
	case err != nil:
		return err
	case !revokedAt.IsZero():
		return fmt.Errorf("%w: the subscription is revoked", store.ErrConflict)
	case mode != store.ModeLive:
		return fmt.Errorf("%w: the account is not live", store.ErrConflict)
	}
	return nil
}

// RecoverSlice bounds the deliveries that one call of Recover queues again.
const RecoverSlice = 1000

// Recover queues again up to RecoverSlice dead deliveries of a subscription whose
// events are of a span and come after one, by their ids; after is "" for the first. It
// returns how many, and the last event, after which to go on: "" when none may be left.
// ErrConflict when the subscription is revoked or its account is not live. The
// transaction must hold the account.
func (b *Batch) Recover(ctx context.Context, subscription string, of store.Span, after string) (queued int, last string, err error) {
	if err := b.mustBeDeliverable(ctx, subscription); err != nil {
		return 0, "", err
	}
	// One bound of each kind, since SQLite looks no more up in the index.
	from, first := ">=", db.FirstID("evt", of.Since)
	if after >= first {
		from, first = ">", after
	}
	dead, upper, args := `subscription_id = ? AND state = 'dead' AND event_id `+from+` ?`, ``, []any{subscription, first}
	if !of.Until.IsZero() {
		upper, args = ` AND event_id < ?`, append(args, db.FirstID("evt", of.Until))
	}
	end, err := b.tx.Strings(ctx, `SELECT event_id FROM deliveries WHERE `+dead+upper+` ORDER BY event_id LIMIT 1 OFFSET ?`,
		append(args, RecoverSlice-1)...)
	if err != nil {
		return 0, "", err
	}
	if len(end) > 0 {
		last = end[0]
		upper, args = ` AND event_id <= ?`, []any{subscription, first, last}
	}
	now := store.Micros(b.tx.Now())
	touched, err := b.tx.Exec(ctx, b.requeue()+`WHERE `+dead+upper, append([]any{now, now, now}, args...)...)
	b.requeues(subscription, now, touched)
	return int(touched), last, err
}

const nextDead = `SELECT subscription_id FROM deliveries WHERE state = 'dead' AND subscription_id > ? ORDER BY subscription_id LIMIT 1`

// NextDead returns the first subscription, by id, that comes after one and has dead
// deliveries, or "" when there is none.
func (s *Store) NextDead(ctx context.Context, after string) (subscription string, err error) {
	all, err := db.All(ctx, s.db, func(row db.Row) (id string, err error) { return id, row.Scan(&id) }, nextDead, after)
	if err != nil || len(all) == 0 {
		return "", db.Fail("find dead deliveries", err)
	}
	return all[0], nil
}

// requeues notes that deliveries of a subscription are due again.
func (b *Batch) requeues(subscription string, now, deliveries int64) {
	if deliveries > 0 {
		b.requeued += int(deliveries)
		b.again = append(b.again, head{id: subscription, due: now})
	}
}

// cancelSlice bounds the waiting deliveries that one transaction cancels.
const cancelSlice = 5000

// Cancel cancels deliveries that wait for a subscription of an account which this
// transaction revokes; more reports that there may be others left, for
// CancelRest. Nothing of the job that calls it may fail afterwards, since
// Mark's reset counts rows.
func (b *Batch) Cancel(ctx context.Context, account, subscription string) (more bool, err error) {
	b.Forget(account)
	if more, err = cancel(ctx, b.tx, subscription); err != nil {
		return false, err
	}
	// Deliveries of other jobs of this transaction are not in the table yet, and
	// need not get there.
	b.made = slices.DeleteFunc(b.made, func(d newDelivery) bool { return d.subscription == subscription })
	b.claimed = slices.DeleteFunc(b.claimed, func(c Claim) bool { return c.SubscriptionID == subscription })
	return more, nil
}

// CancelRest cancels what Cancel left, in transactions of its own.
func (s *Store) CancelRest(ctx context.Context, subscription string) error {
	for more := true; more; {
		if err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			more, err = cancel(ctx, t, subscription)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// nextToCancel finds deliveries that wait in the order of the queue's index: in that of their
// ids, each slice would sort all that are left.
const nextToCancel = `SELECT id FROM deliveries WHERE state = 'pending' AND subscription_id = ? ORDER BY due_at LIMIT ?`

func cancel(ctx context.Context, t *db.Tx, subscription string) (more bool, err error) {
	found, err := t.Strings(ctx, nextToCancel, subscription, cancelSlice)
	if err != nil || len(found) == 0 {
		return false, err
	}
	_, err = t.Exec(ctx, `UPDATE deliveries SET state = 'cancelled', next_at = 0, due_at = 0, lease_owner = '', updated_at = ?
		WHERE `+waitingAmong(t, ""), store.Micros(t.Now()), t.Set(found))
	return len(found) == cancelSlice, err
}

// waitingAmong returns the condition that a delivery has one of some ids, the parameter of
// Tx.Set, and still waits, and meets a further condition that held when it was found. They are
// locked in the order of their ids, as outcomes are written. By state alone PostgreSQL could
// rather read the whole index of the queue.
func waitingAmong(t *db.Tx, further string) string {
	lock := ""
	if t.Postgres() {
		lock = " FOR UPDATE"
	}
	return `id IN (SELECT id FROM deliveries WHERE ` + t.In("id") + ` AND state || '' = 'pending'` + further + ` ORDER BY id` + lock + `)`
}
