package central

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"partneredge/store"
)

// Claim is a delivery that its holder may try until the lease ends, with all
// that a try needs. Claims of one call that are of one event share its Body.
type Claim struct {
	store.Delivery
	// Tries made since the delivery was last queued: the place in the schedule.
	// Attempts counts those before an operator's retry as well.
	Tries int
	Body  json.RawMessage // the event's envelope
	// Of the subscription:
	TargetURL   string
	Secrets     []string  // that sign, the newest first
	Revoked     bool      // then it must be cancelled, not tried
	FailingFrom time.Time // zero when its last try went well
	// Live tells whether the account is; if not, cancel.
	Live bool
}

// Outcome of a claim.
type Outcome struct {
	// Attempt that was made. Number 0 says that none was: then only DeliveryID
	// counts, and State pending gives the claim back.
	Attempt store.Attempt
	State   store.State // pending, delivered, dead or cancelled
	NextAt  time.Time   // of pending: when to try again
	// SubscriptionID of the claim, for its FailingFrom; "" leaves that alone.
	SubscriptionID string
}

// ClaimDeliveries leases up to limit due deliveries to owner. Every
// subscription with something due gets the same share of limit, the one that
// has waited longest first, so that no backlog keeps another subscription from
// being served; a claim may therefore hold fewer than limit although more are
// due. Each subscription's own come in the order in which they are due. A lease
// that ends without FinishDeliveries makes the delivery due again.
func (db *DB) ClaimDeliveries(ctx context.Context, owner string, limit int, lease time.Duration) ([]Claim, error) {
	const tried = "claim deliveries"
	if limit <= 0 || owner == "" || lease <= 0 || !validText(owner) {
		return nil, db.fail(tried, invalid("owner, limit and lease must be set"))
	}
	now := db.now()
	waiting, err := db.subscriptionsDue(ctx, now, limit)
	if err != nil || len(waiting) == 0 {
		return nil, db.fail(tried, err)
	}
	var claims []Claim
	err = db.apart(ctx, func(ctx context.Context, t *tx) error {
		if claims, err = t.claim(ctx, waiting, owner, limit, now, lease); err != nil {
			return err
		}
		return t.complete(ctx, claims)
	})
	if err != nil {
		return nil, db.fail(tried, err)
	}
	return claims, nil
}

// queuesWaiting are the subscriptions that have something waiting.
const queuesWaiting = `WITH RECURSIVE queues(id) AS (
		SELECT min(subscription_id) FROM deliveries WHERE state = 'pending'
		UNION ALL
		SELECT (SELECT min(subscription_id) FROM deliveries WHERE state = 'pending' AND subscription_id > queues.id)
		FROM queues WHERE queues.id IS NOT NULL
	)`

// dueHeads walks the queue's index from subscription to subscription, however
// many deliveries each has waiting, and finds when the first of each is due.
const dueHeads = queuesWaiting + `, heads AS (
		SELECT id, (SELECT min(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = queues.id) AS due_at
		FROM queues WHERE id IS NOT NULL
	) `

// subscriptionsDue are up to limit subscriptions that have something due, the
// longest waiting first.
func (db *DB) subscriptionsDue(ctx context.Context, now time.Time, limit int) ([]string, error) {
	rows, err := db.query(ctx, dueHeads+`SELECT id FROM heads WHERE due_at <= ? ORDER BY due_at, id LIMIT ?`, micros(now), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// NextDelivery is when the first of all waiting deliveries is due, or when the
// lease on it ends; the zero time when nothing waits.
func (db *DB) NextDelivery(ctx context.Context) (time.Time, error) {
	var next time.Time
	err := db.queryRow(ctx, dueHeads+`SELECT min(due_at) FROM heads`).Scan(asTime(&next))
	return next, db.fail("find next delivery", err)
}

const claimed = `id, event_id, subscription_id, state, attempts, tries_before, next_at, created_at, updated_at`

// claimQuery takes up to a share of each subscription of a list, passing over
// what another process is just claiming.
func (d dialect) claimQuery() string {
	if d.postgres {
		return `UPDATE deliveries d SET due_at = ?, lease_owner = ?, updated_at = ?
			FROM (SELECT due.id FROM unnest(?::text[]) WITH ORDINALITY AS s(id, place) CROSS JOIN LATERAL (
				SELECT id FROM deliveries
				WHERE state = 'pending' AND subscription_id = s.id AND due_at <= ?
				ORDER BY due_at LIMIT ? FOR UPDATE SKIP LOCKED) due LIMIT ?) due
			WHERE d.id = due.id
			RETURNING ` + prefixed("d", claimed)
	}
	return `UPDATE deliveries SET due_at = ?, lease_owner = ?, updated_at = ?
		WHERE rowid IN (SELECT d.rowid FROM json_each(?) s CROSS JOIN deliveries d WHERE d.rowid IN (
			SELECT rowid FROM deliveries
			WHERE state = 'pending' AND subscription_id = s.value AND due_at <= ?
			ORDER BY due_at LIMIT ?) LIMIT ?)
		RETURNING ` + claimed
}

func (t *tx) claim(ctx context.Context, subscriptions []string, owner string, limit int, now time.Time, lease time.Duration) ([]Claim, error) {
	share := (limit + len(subscriptions) - 1) / len(subscriptions)
	rows, err := t.query(ctx, t.db.claimQuery(), micros(now.Add(lease)), owner, micros(now),
		t.db.set(subscriptions), micros(now), share, limit)
	if err != nil {
		return nil, err
	}
	return scanClaims(rows)
}

func scanClaims(rows rowsOf) ([]Claim, error) {
	defer func() { _ = rows.Close() }()
	var claims []Claim
	for rows.Next() {
		var c Claim
		var before int
		if err := rows.Scan(&c.ID, &c.EventID, &c.SubscriptionID, &c.State, &c.Attempts, &before,
			asTime(&c.NextAt), asTime(&c.CreatedAt), asTime(&c.UpdatedAt)); err != nil {
			return nil, err
		}
		c.Tries = c.Attempts - before
		claims = append(claims, c)
	}
	// RETURNING keeps no order.
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), strings.Compare(a.ID, b.ID))
	})
	return claims, rows.Err()
}

// complete adds to claims what their events and subscriptions hold.
func (t *tx) complete(ctx context.Context, claims []Claim) error {
	events, subscriptions := make(map[string]*store.Event), make(map[string]*subscriber)
	for _, c := range claims {
		events[c.EventID], subscriptions[c.SubscriptionID] = &store.Event{}, &subscriber{}
	}
	if err := t.readEvents(ctx, events); err != nil {
		return err
	}
	if err := t.readSubscribers(ctx, subscriptions); err != nil {
		return err
	}
	for i := range claims {
		c := &claims[i]
		e, s := events[c.EventID], subscriptions[c.SubscriptionID]
		c.AccountID, c.EventType, c.Body = e.AccountID, e.Type, e.Body
		c.TargetURL, c.Secrets = s.url, s.secrets
		c.Revoked, c.Live, c.FailingFrom = !s.revokedAt.IsZero(), s.mode == store.ModeLive, s.failingFrom
	}
	return nil
}

func keysOf[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func (t *tx) readEvents(ctx context.Context, events map[string]*store.Event) error {
	rows, err := t.query(ctx, `SELECT id, account_id, type, body FROM events WHERE `+t.db.in("id"), t.db.set(keysOf(events)))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e store.Event
		var body string
		if err := rows.Scan(&e.ID, &e.AccountID, &e.Type, &body); err != nil {
			return err
		}
		e.Body = json.RawMessage(body)
		*events[e.ID] = e
	}
	return rows.Err()
}

// subscriber is what a claim tells of its subscription.
type subscriber struct {
	url                    string
	secrets                []string
	revokedAt, failingFrom time.Time
	mode                   store.Mode
}

func (t *tx) readSubscribers(ctx context.Context, subscriptions map[string]*subscriber) error {
	rows, err := t.query(ctx, `SELECT s.id, s.target_url, s.revoked_at, s.failing_from, a.mode, `+signingColumns+`
		FROM subscriptions s JOIN accounts a ON a.id = s.account_id WHERE `+t.db.in("s.id"), t.db.set(keysOf(subscriptions)))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var s subscriber
		var keys signing
		if err := rows.Scan(append([]any{&id, &s.url, asTime(&s.revokedAt), asTime(&s.failingFrom), &s.mode}, keys.scan()...)...); err != nil {
			return err
		}
		s.secrets = t.db.secrets(id, keys)
		*subscriptions[id] = s
	}
	return rows.Err()
}
