package central

import (
	"context"
	"fmt"
	"time"

	"partneredge/store"
)

// Taker takes deliveries as their events are written: they go into the table
// with its lease on them already, which saves finding and claiming them, and
// reach it as soon as they are committed. What it has no room for waits for
// ClaimDeliveries, as all deliveries do without a taker.
type Taker struct {
	Owner string        // of the leases
	Lease time.Duration // from when the event is written
	// Accept tells whether there is room for one more delivery to a
	// subscription. It is called inside a transaction, so it must return at
	// once. Until Take is called it does not know of those it accepted before in
	// the same transaction.
	Accept func(subscriptionID string) bool
	// Take gets what was accepted, after the commit, with Delivery, Body and all
	// the rest set. It must return at once and not call the DB. What is in a
	// transaction that fails is not heard of again.
	Take func([]Claim)
}

// SetTaker sets who takes new deliveries from the next transaction on; nil:
// nobody. There is one at a time.
func (db *DB) SetTaker(t *Taker) error {
	if t != nil && (t.Owner == "" || !validText(t.Owner) || t.Lease <= 0 || t.Accept == nil || t.Take == nil) {
		return fmt.Errorf("set taker: %w", invalid("a field is not set"))
	}
	db.taker.Store(t)
	return nil
}

// deliver makes the delivery of an event to a target.
func (t *tx) deliver(e *store.Event, to target) {
	id := store.NewID("dlv", e.CreatedAt)
	at := e.CreatedAt.UnixMicro()
	if t.taker == nil || !t.taker.Accept(to.id) {
		t.deliveries.add(id, e.ID, to.id, "", at, at)
		return
	}
	t.deliveries.add(id, e.ID, to.id, t.taker.Owner, at, e.CreatedAt.Add(t.taker.Lease).UnixMicro())
	t.taken = append(t.taken, Claim{
		Delivery: store.Delivery{
			ID: id, EventID: e.ID, EventType: e.Type, SubscriptionID: to.id, AccountID: e.AccountID,
			State: store.StatePending, NextAt: e.CreatedAt, CreatedAt: e.CreatedAt, UpdatedAt: e.CreatedAt,
		},
		Body: e.Body, TargetURL: to.url, Secrets: to.secrets, FailingFrom: to.failingFrom, Live: true,
	})
}

// ReleaseDeliveries gives back every lease that owner holds, so that others
// need not wait for the leases to end. It is for an owner that stops, or that
// starts again under the name it had. It works in slices; when err is not nil,
// some may be given back.
func (db *DB) ReleaseDeliveries(ctx context.Context, owner string) (released int, err error) {
	const tried = "release deliveries"
	if owner == "" || !validText(owner) {
		return 0, db.fail(tried, invalid("owner is not set"))
	}
	for {
		var ids []string
		err := db.apart(ctx, func(ctx context.Context, t *tx) error {
			var err error
			// What is leased is not due, so few rows are looked at in a long queue.
			ids, err = t.strings(ctx, queuesWaiting+`SELECT d.id FROM queues CROSS JOIN deliveries d
				WHERE d.state = 'pending' AND d.subscription_id = queues.id AND d.due_at > ? AND d.lease_owner = ?
				LIMIT ?`, micros(t.db.now()), owner, releaseSlice)
			if err != nil || len(ids) == 0 {
				return err
			}
			_, err = t.exec(ctx, `UPDATE deliveries SET lease_owner = '', due_at = next_at
				WHERE lease_owner = ? AND state = 'pending' AND `+t.db.in("id"), owner, t.db.set(ids))
			return err
		})
		if err != nil {
			return released, db.fail(tried, err)
		}
		if released += len(ids); len(ids) < releaseSlice {
			return released, nil
		}
	}
}

// releaseSlice is how many leases one transaction gives back.
const releaseSlice = 5000
