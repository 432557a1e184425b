package central

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/wasm/typeid"
)

const deliveryColumns = `d.id, d.event_id, e.type, d.subscription_id, e.account_id, d.state, d.attempts, d.next_at, d.created_at, d.updated_at`

func scanDelivery(row scanner) (d store.Delivery, err error) {
	err = row.Scan(&d.ID, &d.EventID, &d.EventType, &d.SubscriptionID, &d.AccountID, &d.State, &d.Attempts,
		asTime(&d.NextAt), asTime(&d.CreatedAt), asTime(&d.UpdatedAt))
	return d, err
}

// DeliveryFilter names a part of the log: of a subscription, of an event, or of
// both. One of the two must be set.
type DeliveryFilter struct {
	SubscriptionID string
	EventID        string
	State          store.State // "" any
	// Refused: only those whose last try the guard refused. It looks at all of
	// the part that were not delivered.
	Refused bool
}

// Deliveries lists the log, newest event first; of one event, by subscription.
func (db *DB) Deliveries(ctx context.Context, f DeliveryFilter, p store.Page) ([]store.Delivery, string, error) {
	const tried = "list deliveries"
	if f.State != "" {
		if err := checkOneOf("state", f.State, store.StatePending, store.StateDelivered, store.StateDead, store.StateCancelled); err != nil {
			return nil, "", db.fail(tried, err)
		}
	}
	if f.EventID != "" {
		if err := mustBeText("event", f.EventID); err != nil {
			return nil, "", db.fail(tried, err)
		}
	}
	var query, cursor, list string
	var args []any
	switch {
	case f.SubscriptionID != "":
		if _, err := db.Subscription(ctx, f.SubscriptionID); err != nil {
			return nil, "", db.fail(tried, err)
		}
		query, cursor, args = `FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.subscription_id = ?`, "d.event_id", []any{f.SubscriptionID}
		list = "deliveries of " + f.SubscriptionID
		if f.EventID != "" {
			query, args = query+` AND d.event_id = ?`, append(args, f.EventID)
		}
	case f.EventID != "":
		event, err := db.Event(ctx, f.EventID)
		if err != nil {
			return nil, "", db.fail(tried, err)
		}
		// An event went to subscriptions of its own account only.
		query, cursor, args = `FROM subscriptions s CROSS JOIN deliveries d CROSS JOIN events e
			WHERE s.account_id = ? AND d.subscription_id = s.id AND d.event_id = ? AND e.id = d.event_id`,
			"d.subscription_id", []any{event.AccountID, f.EventID}
		list = "deliveries of " + f.EventID
	default:
		return nil, "", db.fail(tried, invalid("neither subscription nor event is named"))
	}
	switch f.State {
	case "":
	case store.StateDead, store.StatePending: // as a literal, so that its own index can serve
		query += ` AND d.state = '` + string(f.State) + `'`
	default:
		query, args = query+` AND d.state = ?`, append(args, string(f.State))
	}
	if f.Refused {
		query += ` AND d.state <> 'delivered' AND EXISTS (SELECT 1 FROM attempts a
			WHERE a.delivery_id = d.id AND a.number = d.attempts AND a.error LIKE 'refused by guard:%')`
	}
	if p.Cursor != "" {
		place, err := unmark(list, p.Cursor)
		if err != nil {
			return nil, "", db.fail(tried, err)
		}
		query, args = query+` AND `+cursor+` < ?`, append(args, place)
	}
	limit := pageLimit(p)
	items, err := db.deliveries(ctx, query+` ORDER BY `+cursor+` DESC LIMIT ?`, append(args, limit+1)...)
	if err != nil {
		return nil, "", db.fail(tried, err)
	}
	if len(items) <= limit {
		return items, "", nil
	}
	last := items[limit-1]
	if cursor == "d.event_id" {
		return items[:limit], mark(list, last.EventID), nil
	}
	return items[:limit], mark(list, last.SubscriptionID), nil
}

func (db *DB) deliveries(ctx context.Context, from string, args ...any) ([]store.Delivery, error) {
	rows, err := db.query(ctx, `SELECT `+deliveryColumns+` `+from, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	items := []store.Delivery{}
	for rows.Next() {
		d, err := scanDelivery(rows)
		if err != nil {
			return nil, err
		}
		items = append(items, d)
	}
	return items, rows.Err()
}

// Delivery reads one delivery.
func (db *DB) Delivery(ctx context.Context, id string) (store.Delivery, error) {
	if err := mustBeText("delivery", id); err != nil {
		return store.Delivery{}, db.fail("read delivery", err)
	}
	d, err := scanDelivery(db.queryRow(ctx, `SELECT `+deliveryColumns+`
		FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.id = ?`, id))
	return d, db.fail("read delivery", err)
}

// Attempts lists the tries of a delivery, first to last.
func (db *DB) Attempts(ctx context.Context, deliveryID string) ([]store.Attempt, error) {
	const tried = "list attempts"
	if _, err := db.Delivery(ctx, deliveryID); err != nil {
		return nil, db.fail(tried, err)
	}
	rows, err := db.query(ctx, `SELECT id, delivery_id, number, started_at, latency_us, status, headers, excerpt, error
		FROM attempts WHERE delivery_id = ? ORDER BY number`, deliveryID)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	items := []store.Attempt{}
	for rows.Next() {
		var a store.Attempt
		var latency int64
		if err := rows.Scan(&a.ID, &a.DeliveryID, &a.Number, asTime(&a.StartedAt), &latency, &a.Status,
			asJSON(&a.Headers), &a.Excerpt, &a.Error); err != nil {
			return nil, db.fail(tried, err)
		}
		a.Latency = time.Duration(latency) * time.Microsecond
		items = append(items, a)
	}
	return items, db.fail(tried, rows.Err())
}

// retried is a delivery as the audit log shows it.
type retried struct {
	State store.State `json:"state"`
}

// recovered is what the audit log shows of one slice of a recovery.
type recovered struct {
	Since  time.Time `json:"since"`
	Queued int64     `json:"queued"`
}

// requeue makes deliveries pending and due at once. Their schedule begins anew;
// the numbers of their attempts go on.
const requeue = `UPDATE deliveries SET state = 'pending', tries_before = attempts, next_at = ?, due_at = ?, lease_owner = '', updated_at = ? `

// RetryDelivery queues a delivered or dead delivery once more, and makes one that
// waits for its next try due at once. One that is due already stays as it is, so
// asking twice is asking once. ErrConflict when it was cancelled, its
// subscription is revoked, or its account is not live.
func (db *DB) RetryDelivery(ctx context.Context, id string) (store.Delivery, error) {
	const tried = "retry delivery"
	d, err := db.Delivery(ctx, id)
	if err != nil {
		return store.Delivery{}, db.fail(tried, err)
	}
	err = db.change(ctx, d.AccountID, func(ctx context.Context, t *tx) error {
		if err := t.mayDeliver(ctx, d.AccountID, d.SubscriptionID); err != nil {
			return err
		}
		var state store.State
		if err := t.one(ctx, `SELECT state FROM deliveries WHERE id = ?`, []any{id}, &state); err != nil {
			return err
		}
		now := micros(db.now())
		var touched int64
		var err error
		switch state {
		case store.StatePending: // what a sender has in hand is leased, or was due before
			touched, err = t.exec(ctx, `UPDATE deliveries SET next_at = ?, due_at = ?, updated_at = ?
				WHERE id = ? AND state = 'pending' AND lease_owner = '' AND next_at > ?`, now, now, now, id, now)
		case store.StateCancelled:
			return fmt.Errorf("%w: the delivery is cancelled", store.ErrConflict)
		default:
			touched, err = t.exec(ctx, requeue+`WHERE id = ? AND state IN ('delivered', 'dead')`, now, now, now, id)
		}
		t.requeued += int(touched)
		if err != nil || touched == 0 {
			return err
		}
		return t.audited(ctx, "delivery.retry", id, retried{state}, retried{store.StatePending})
	})
	if err != nil {
		return store.Delivery{}, db.fail(tried, err)
	}
	return db.Delivery(ctx, id)
}

// mayDeliver is ErrConflict when nothing may be sent to the subscription.
func (t *tx) mayDeliver(ctx context.Context, accountID, subscriptionID string) error {
	s, err := t.subscription(ctx, subscriptionID)
	switch {
	case err != nil:
		return err
	case !s.RevokedAt.IsZero():
		return fmt.Errorf("%w: the subscription is revoked", store.ErrConflict)
	case t.modes[accountID] != store.ModeLive:
		return fmt.Errorf("%w: the account is not live", store.ErrConflict)
	}
	return nil
}

// recoverSlice is how many deliveries one transaction queues again.
const recoverSlice = 1000

// RecoverDeliveries queues again the dead deliveries of a subscription whose
// events are of since or later, and returns how many. Asking again queues those
// that have died meanwhile. There are no others to recover: a delivery is made
// with its event, so an event without one did not match, or was silenced, or
// came before the subscription. It works in slices; when err is not nil, some
// may be queued. ErrConflict as for RetryDelivery.
func (db *DB) RecoverDeliveries(ctx context.Context, subscriptionID string, since time.Time) (queued int, err error) {
	const tried = "recover deliveries"
	if err := errors.Join(mustBeText("subscription", subscriptionID), checkTimes(since)); err != nil {
		return 0, db.fail(tried, err)
	}
	s, err := db.Subscription(ctx, subscriptionID)
	if err != nil {
		return 0, db.fail(tried, err)
	}
	for {
		var touched int64
		err := db.change(ctx, s.AccountID, func(ctx context.Context, t *tx) error {
			if err := t.mayDeliver(ctx, s.AccountID, s.ID); err != nil {
				return err
			}
			now := micros(db.now())
			var err error
			touched, err = t.exec(ctx, requeue+`WHERE id IN (
				SELECT id FROM deliveries WHERE subscription_id = ? AND state = 'dead' AND event_id >= ?
				ORDER BY event_id LIMIT ?)`, now, now, now, s.ID, firstID("evt", since), recoverSlice)
			t.requeued += int(touched)
			if err != nil || touched == 0 {
				return err
			}
			return t.audited(ctx, "webhook.recover", s.ID, nil, recovered{since, touched})
		})
		queued += int(touched)
		if err != nil || touched < recoverSlice {
			return queued, db.fail(tried, err)
		}
	}
}

// firstID sorts before every identifier made at t or later.
func firstID(prefix string, t time.Time) string {
	if t.IsZero() {
		return prefix
	}
	return typeid.Make(prefix, t.UnixMilli(), [10]byte{})
}

// cancelSlice is how many waiting deliveries one transaction cancels.
const cancelSlice = 5000

// cancelSlice cancels deliveries that wait for a subscription.
func (t *tx) cancelSlice(ctx context.Context, subscriptionID string) (int64, error) {
	lock := ""
	if t.db.postgres {
		lock = " FOR UPDATE"
	}
	return t.exec(ctx, `UPDATE deliveries SET state = 'cancelled', next_at = 0, due_at = 0, lease_owner = '', updated_at = ?
		WHERE id IN (SELECT id FROM deliveries WHERE state = 'pending' AND subscription_id = ? ORDER BY id LIMIT ?`+lock+`)`,
		micros(t.db.now()), subscriptionID, cancelSlice)
}

// PruneDeliveries removes up to limit deliveries that ended before a time, with
// their attempts, and up to limit events of before it that no delivery is left
// of. It returns how many rows of both went; call it until that is 0. Small
// limits keep each transaction short.
func (db *DB) PruneDeliveries(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	const tried = "prune deliveries"
	if limit <= 0 || before.IsZero() || checkTimes(before) != nil {
		return 0, db.fail(tried, invalid("time or limit is not set"))
	}
	err = db.apart(ctx, func(ctx context.Context, t *tx) error {
		removed = 0
		old, err := t.strings(ctx, `SELECT id FROM deliveries
			WHERE id < ? AND updated_at < ? AND state <> 'pending' ORDER BY id LIMIT ?`,
			firstID("dlv", before), micros(before), limit)
		if err != nil {
			return err
		}
		if len(old) > 0 {
			if _, err := t.exec(ctx, `DELETE FROM attempts WHERE `+t.db.in("delivery_id"), t.db.set(old)); err != nil {
				return err
			}
			gone, err := t.exec(ctx, `DELETE FROM deliveries WHERE state <> 'pending' AND `+t.db.in("id"), t.db.set(old))
			if err != nil {
				return err
			}
			removed += int(gone)
		}
		gone, err := t.exec(ctx, `DELETE FROM events WHERE id IN (
			SELECT e.id FROM events e WHERE e.id < ? AND NOT EXISTS (
				SELECT 1 FROM subscriptions s CROSS JOIN deliveries d
				WHERE s.account_id = e.account_id AND d.subscription_id = s.id AND d.event_id = e.id)
			ORDER BY e.id LIMIT ?)`, firstID("evt", before), limit)
		removed += int(gone)
		return err
	})
	return removed, db.fail(tried, err)
}
