package central

import (
	"context"
	"errors"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// RetryDelivery queues a delivered, dead or cancelled delivery once more, and makes one
// that waits for its next try due at once. One that is due already stays as it is, so
// asking twice is asking once. ErrConflict when its subscription is revoked, or its
// account is not live.
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
// events are of a span and come after one, by their ids, and returns how many. Asking
// again from the first, for which after is "", queues those that have died meanwhile. There
// are no others to recover: a delivery is made with its event, so an event without one
// did not match, or was silenced, or came before the subscription. It works in
// slices; when err is not nil, some may be queued. Once it has worked for long, it
// ends and returns last, the event after which to go on; last is "" when all are done.
// ErrConflict as for RetryDelivery.
func (d *DB) RecoverDeliveries(ctx context.Context, subscriptionID string, of store.Span, after string, long time.Duration) (queued int, last string, err error) {
	return d.recover(ctx, subscriptionID, of, after, longer(long))
}

// longer returns a function that reports whether a time has passed since.
func longer(long time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) >= long }
}

// recover is RecoverDeliveries, but ends after a slice once enough returns true.
func (d *DB) recover(ctx context.Context, subscriptionID string, of store.Span, after string, enough func() bool) (queued int, last string, err error) {
	const op = "recover deliveries"
	if err := errors.Join(valid.Reference("subscription", subscriptionID), valid.Times(of.Since, of.Until)); err != nil {
		return 0, "", db.Fail(op, err)
	}
	if !valid.Text(after) {
		return 0, "", db.Fail(op, valid.Errorf("event"))
	}
	s, err := d.Subscription(ctx, subscriptionID)
	if err != nil {
		return 0, "", db.Fail(op, err)
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
			if slice.Queued, last, err = t.deliveries.Recover(ctx, s.ID, of, after); err != nil || slice.Queued == 0 {
				return err
			}
			return t.audited(ctx, audit.Entry{Action: "webhook.recover", Target: s.ID, After: slice})
		})
		if err != nil {
			return queued, "", db.Fail(op, err)
		}
		if queued += slice.Queued; last == "" || enough() {
			return queued, last, nil
		}
		after = last
	}
}

// RecoverAllDeliveries is RecoverDeliveries for each subscription, by id, that comes after
// one. It passes over those that are revoked and those whose account is not live. Once
// it has worked for long, it ends and returns last, after which to go on: a subscription, with
// "/" and an event of the one that it was at. last is "" when all are done.
func (d *DB) RecoverAllDeliveries(ctx context.Context, of store.Span, after string, long time.Duration) (queued int, last string, err error) {
	if !valid.Text(after) {
		return 0, "", db.Fail("recover all deliveries", valid.Errorf("subscription"))
	}
	enough := longer(long)
	id, event, within := strings.Cut(after, "/")
	for {
		if !within {
			if id, err = d.NextDead(ctx, id); err != nil || id == "" {
				return queued, "", err
			}
		}
		n, at, err := d.recover(ctx, id, of, event, enough)
		queued += n
		switch {
		case err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound):
			return queued, "", err
		case at != "":
			return queued, id + "/" + at, nil
		case enough():
			return queued, id, nil
		}
		event, within = "", false
	}
}
