package deliveries

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Claimer claims deliveries as they are made: they are inserted with its lease on
// them, which saves finding and claiming them, and reach it as soon as they are
// committed. What it does not accept waits for ClaimDeliveries, as all
// deliveries do without a Claimer.
type Claimer struct {
	Owner string        // of the leases
	Lease time.Duration // from when the event is written
	// Accept reports whether there is room for one more delivery to a
	// subscription. It is called inside a transaction, so it must return at once.
	// Deliveries that it accepted before in the same transaction have not been
	// given to Claimed yet.
	Accept func(subscriptionID string) bool
	// Claimed gets what was accepted, after the commit. It must return at once and
	// not call the database. Deliveries of a transaction that fails never reach it.
	Claimed func([]Claim)
}

// SetClaimer sets who claims new deliveries from the next transaction on; nil:
// nobody. There is one at a time.
func (s *Store) SetClaimer(c *Claimer) error {
	if c != nil && (c.Owner == "" || !valid.Text(c.Owner) || c.Lease <= 0 || c.Accept == nil || c.Claimed == nil) {
		return fmt.Errorf("set claimer: %w", valid.Errorf("a field is not set"))
	}
	s.claimer.Store(c)
	if c != nil {
		s.waiting.renew() // since it has not been told of anything
	}
	return nil
}

// target is a subscription that live events of its account go to.
type target struct {
	id       string
	events   []string
	endpoint Endpoint
}

// Batch makes, queues again and cancels deliveries in one shared transaction. New
// ones are inserted by Flush.
type Batch struct {
	store   *Store
	tx      *db.Tx
	claimer *Claimer // nil: none

	targets  map[string][]target // of accounts, once read
	expected []string            // accounts whose targets are read with the second that is asked for
	asked    bool                // for the first
	made     []newDelivery
	claimed  []Claim // those of made that the claimer accepted
	requeued int     // deliveries that are due again
	again    []head  // of subscriptions that have some of these
}

// newDelivery is a delivery to be inserted. Times are in microseconds.
type newDelivery struct {
	id, event, subscription, owner string
	at, due                        int64
}

var insertDeliveries = db.Bulk[newDelivery]{
	Tried:   "write deliveries",
	Columns: "id, event_id, subscription_id, owner, at, due",
	Row:     func(d newDelivery) []any { return []any{d.id, d.event, d.subscription, d.owner, d.at, d.due} },
	Statement: `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before,
			next_at, due_at, lease_owner, created_at, updated_at)
		SELECT id, event_id, subscription_id, 'pending', 0, 0, at, due, owner, at, at FROM v`,
}

// NewBatch makes the Batch of a transaction.
func (s *Store) NewBatch(t *db.Tx) *Batch {
	return &Batch{store: s, tx: t, claimer: s.claimer.Load(), targets: make(map[string][]target)}
}

// FanOut makes one delivery of an event, due now, for each subscription that is to have
// it. The transaction must hold the event's account.
func (b *Batch) FanOut(ctx context.Context, e *store.Event, now time.Time) error {
	targets, err := b.targetsOf(ctx, e.AccountID)
	if err != nil {
		return err
	}
	for _, to := range targets {
		if slices.Contains(to.events, e.Type) {
			b.deliver(e, to, now)
		}
	}
	return nil
}

// targetsOf reads the live, unrevoked subscriptions of an account, once a
// transaction. Whoever changes them calls Forget.
func (b *Batch) targetsOf(ctx context.Context, account string) ([]target, error) {
	if targets, ok := b.targets[account]; ok {
		return targets, nil
	}
	accounts := []string{account}
	if b.asked {
		for _, other := range b.expected {
			if _, read := b.targets[other]; !read && other != account {
				accounts = append(accounts, other)
			}
		}
		b.expected = nil
	}
	b.asked = true
	read := make(map[string][]target, len(accounts))
	for _, of := range accounts {
		read[of] = nil
	}
	err := db.Each(ctx, b.tx, func(row db.Row) error {
		to := target{endpoint: Endpoint{Deliverable: true}}
		var keys Signing
		var of string
		err := row.Scan(append([]any{&of, &to.id, db.JSON(&to.events), &to.endpoint.TargetURL, db.Time(&to.endpoint.FailingFrom)}, keys.Scan()...)...)
		if err == nil {
			to.endpoint.Secrets = b.store.secrets(to.id, keys)
			read[of] = append(read[of], to)
		}
		return err
	}, `SELECT account_id, id, events, target_url, failing_from, `+SigningColumns+` FROM subscriptions
		WHERE `+b.tx.In("account_id")+` AND revoked_at = 0 AND environment = 'live'`, b.tx.Set(accounts))
	if err != nil {
		return nil, err
	}
	maps.Copy(b.targets, read)
	return read[account], nil
}

// Expect names the accounts that the transaction holds, most of which are likely to have
// events: it reads their subscriptions together.
func (b *Batch) Expect(accounts []string) { b.expected = accounts }

// Forget makes the batch read the subscriptions of an account again.
func (b *Batch) Forget(account string) { delete(b.targets, account) }

func (b *Batch) deliver(e *store.Event, to target, now time.Time) {
	d := store.Delivery{
		ID: store.NewID("dlv", now), EventID: e.ID, EventType: e.Type, SubscriptionID: to.id, AccountID: e.AccountID,
		State: store.StatePending, NextAt: now, CreatedAt: now, UpdatedAt: now,
	}
	owner, due := "", now
	if b.claimer != nil && b.claimer.Accept(to.id) {
		owner, due = b.claimer.Owner, due.Add(b.claimer.Lease)
		b.claimed = append(b.claimed, Claim{Delivery: b.store.localTimes(d), Body: e.Body, Endpoint: to.endpoint})
	}
	b.made = append(b.made, newDelivery{d.ID, d.EventID, to.id, owner, now.UnixMicro(), due.UnixMicro()})
}

// Mark returns a function that forgets the deliveries made since, and what was
// read, since the job that failed may have read its own writes.
func (b *Batch) Mark() (reset func()) {
	made, claimed, requeued, again := len(b.made), len(b.claimed), b.requeued, len(b.again)
	return func() {
		b.made, b.claimed, b.requeued, b.again = b.made[:made], b.claimed[:claimed], requeued, b.again[:again]
		clear(b.targets)
	}
}

// Flush inserts the new deliveries.
func (b *Batch) Flush(ctx context.Context) error { return insertDeliveries.Run(ctx, b.tx, b.made) }

// Committed gives the claimer what it accepted, and notes what waits.
func (b *Batch) Committed() {
	if !b.tx.Postgres() {
		for _, d := range b.made {
			b.again = append(b.again, head{id: d.subscription, due: d.due})
		}
		b.store.waiting.add(b.again, b.tx.Now())
	}
	if len(b.claimed) > 0 {
		b.claimer.Claimed(b.claimed)
	}
}

// Due returns how many deliveries are due at once and claimed by nobody.
func (b *Batch) Due() int { return len(b.made) - len(b.claimed) + b.requeued }
