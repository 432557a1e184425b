package central

import (
	"context"
	"errors"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/valid"
)

// RetryDelivery queues a delivered or dead delivery once more, and makes one that
// waits for its next try due at once. One that is due already stays as it is, so
// asking twice is asking once. ErrConflict when it was cancelled, its
// subscription is revoked, or its account is not live.
func (d *DB) RetryDelivery(ctx context.Context, id string) (store.Delivery, error) {
	const op = "retry delivery"
	delivery, err := d.Delivery(ctx, id)
	if err != nil {
		return store.Delivery{}, db.Fail(op, err)
	}
	type shown struct {
		State store.State `json:"state"`
	}
	err = d.change(ctx, delivery.AccountID, func(ctx context.Context, t *tx) error {
		before, changed, err := t.deliveries.Retry(ctx, id)
		if err != nil || !changed {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "delivery.retry", Target: id, Before: shown{before}, After: shown{store.StatePending}})
	})
	if err != nil {
		return store.Delivery{}, db.Fail(op, err)
	}
	return d.Delivery(ctx, id)
}

// RecoverDeliveries queues again the dead deliveries of a subscription whose
// events are of a span, and returns how many. Asking again queues those
// that have died meanwhile. There are no others to recover: a delivery is made
// with its event, so an event without one did not match, or was silenced, or
// came before the subscription. It works in slices; when err is not nil, some
// may be queued. ErrConflict as for RetryDelivery.
func (d *DB) RecoverDeliveries(ctx context.Context, subscriptionID string, of store.Span) (queued int, err error) {
	queued, _, err = d.recover(ctx, subscriptionID, of, func() bool { return false })
	return queued, err
}

// recover is RecoverDeliveries, but ends after a slice once enough returns true; more reports
// whether some may be left.
func (d *DB) recover(ctx context.Context, subscriptionID string, of store.Span, enough func() bool) (queued int, more bool, err error) {
	const op = "recover deliveries"
	if err := errors.Join(valid.Reference("subscription", subscriptionID), valid.Times(of.Since, of.Until)); err != nil {
		return 0, false, db.Fail(op, err)
	}
	s, err := d.Subscription(ctx, subscriptionID)
	if err != nil {
		return 0, false, db.Fail(op, err)
	}
	type shown struct { // of one slice
		Since  time.Time  `json:"since"`
		Until  *time.Time `json:"until,omitempty"`
		Queued int        `json:"queued"`
	}
	slice := shown{Since: of.Since}
	if !of.Until.IsZero() {
		slice.Until = &of.Until
	}
	for {
		slice := slice
		err := d.change(ctx, s.AccountID, func(ctx context.Context, t *tx) (err error) {
			if slice.Queued, err = t.deliveries.Recover(ctx, s.ID, of); err != nil || slice.Queued == 0 {
				return err
			}
			return t.audited(ctx, audit.Entry{Action: "webhook.recover", Target: s.ID, After: slice})
		})
		if err != nil {
			return queued, false, db.Fail(op, err)
		}
		if queued += slice.Queued; slice.Queued < deliveries.RecoverSlice {
			return queued, false, nil
		}
		if enough() {
			return queued, true, nil
		}
	}
}

// RecoverAllDeliveries is RecoverDeliveries for each subscription, by id, that comes after
// one. It passes over those that are revoked and those whose account is not live. Once
// it has worked for long, it ends and returns last, after which to go on; last is "" when all
// are done.
func (d *DB) RecoverAllDeliveries(ctx context.Context, of store.Span, after string, long time.Duration) (queued int, last string, err error) {
	if !valid.Text(after) {
		return 0, "", db.Fail("recover all deliveries", valid.Errorf("subscription"))
	}
	began := time.Now()
	enough := func() bool { return time.Since(began) >= long }
	for {
		id, err := d.NextDead(ctx, after)
		if err != nil || id == "" {
			return queued, "", err
		}
		n, more, err := d.recover(ctx, id, of, enough)
		queued += n
		if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return queued, "", err
		}
		if more {
			return queued, id[:len(id)-1], nil // which comes before it, and after nearly all others
		}
		if after = id; enough() {
			return queued, after, nil
		}
	}
}
