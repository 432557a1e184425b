package deliveries

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Claim is a delivery that its holder may try until the lease ends, with all
// that a try needs. Its times are by the clock of this process. Claims of one call
// that are of one event share its Body.
type Claim struct {
	store.Delivery
	// Tries made since the delivery was last queued: the place in the schedule.
	// Attempts counts those before an operator's retry as well.
	Tries    int
	Body     json.RawMessage // the event's envelope
	Endpoint Endpoint        // not Deliverable: cancel the delivery
}

// ClaimRequest names the queues to claim from, and who claims.
type ClaimRequest struct {
	Owner         string
	Lease         time.Duration
	Subscriptions []string
	Each          int // the most from each subscription
	// Holds reports whether the owner holds a delivery already, of which it has at
	// most Held of a subscription. SQLite, which one process uses alone, keeps no
	// leases of claims and passes these over instead.
	Holds func(deliveryID string) bool
	Held  map[string]int
}

// ClaimDeliveries gives the owner due deliveries of the subscriptions named, in
// the order in which they are due. more lists those of the subscriptions that have
// others due. A lease that ends before its outcome is recorded makes the delivery due
// again.
func (s *Store) ClaimDeliveries(ctx context.Context, r ClaimRequest) (claims []Claim, more []string, err error) {
	const op = "claim deliveries"
	if r.Each <= 0 || r.Owner == "" || r.Lease <= 0 || !valid.Text(r.Owner) {
		return nil, nil, db.Fail(op, valid.Errorf("owner, share and lease must be set"))
	}
	if len(r.Subscriptions) == 0 {
		return nil, nil, nil
	}
	claim, now := s.claimUnleased, s.db.Now()
	if s.db.Postgres() {
		claim = s.claimLeased
	}
	c, err := claim(ctx, r, now)
	if err != nil {
		return nil, nil, db.Fail(op, err)
	}
	for i := range c.claims {
		c.claims[i].Delivery = s.localTimes(c.claims[i].Delivery)
	}
	return c.claims, s.waiting.resolve(c.from, c.rest, now), nil
}

// claimed holds the deliveries that a transaction claimed, the places from which it read
// the queue, and those where the queue begins afterwards.
type claimed struct {
	claims []Claim
	from   []head
	rest   []first
}

// localTimes returns a delivery with its times by the clock of this process.
func (s *Store) localTimes(d store.Delivery) store.Delivery {
	d.NextAt, d.CreatedAt, d.UpdatedAt = s.db.Local(d.NextAt), s.db.Local(d.CreatedAt), s.db.Local(d.UpdatedAt)
	return d
}

const claimColumns = `id, event_id, subscription_id, state, attempts, tries_before, next_at, created_at, updated_at`

func scanClaim(row db.Row) (c Claim, err error) {
	var before int
	err = row.Scan(&c.ID, &c.EventID, &c.SubscriptionID, &c.State, &c.Attempts, &before,
		db.Time(&c.NextAt), db.Time(&c.CreatedAt), db.Time(&c.UpdatedAt))
	c.Tries = c.Attempts - before
	return c, err
}

// readClaims sorts what a query gives, since RETURNING keeps no order.
func readClaims(ctx context.Context, q db.Querier, query string, args ...any) ([]Claim, error) {
	claims, err := db.All(ctx, q, scanClaim, query, args...)
	sortByDue(claims)
	return claims, err
}

func sortByDue(claims []Claim) {
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), strings.Compare(a.ID, b.ID))
	})
}

// claimLeased leases deliveries to the owner, passing over what another process
// is just claiming. It reads the queue from where its look found that it begins.
func (s *Store) claimLeased(ctx context.Context, r ClaimRequest, now time.Time) (c claimed, err error) {
	err = s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		c = claimed{}
		if err := s.look(ctx, t); err != nil {
			return err
		}
		if c.from = s.waiting.heads(r.Subscriptions); len(c.from) == 0 {
			return nil
		}
		ids, dues := columns(c.from)
		c.claims, err = readClaims(ctx, t, `UPDATE deliveries d SET due_at = ?, lease_owner = ?, updated_at = ?`+s.written()+`
			FROM (SELECT due.id FROM unnest(?::text[], ?::bigint[]) AS s(id, due) CROSS JOIN LATERAL (
				SELECT id FROM deliveries
				WHERE state = 'pending' AND subscription_id = s.id AND due_at >= s.due AND due_at <= ?
				ORDER BY due_at LIMIT ? FOR UPDATE SKIP LOCKED) due) due
			WHERE d.id = due.id
			RETURNING `+db.Prefixed("d", claimColumns),
			store.Micros(now.Add(r.Lease)), r.Owner, store.Micros(now), ids, dues, store.Micros(now), r.Each)
		if err != nil {
			return err
		}
		if c.rest, err = s.firstOf(ctx, t, c.from); err != nil {
			return err
		}
		return s.complete(ctx, t, c.claims)
	})
	return c, err
}

// claimUnleased only reads. What it finds or passes over is looked at again when a lease
// of it would end.
func (s *Store) claimUnleased(ctx context.Context, r ClaimRequest, now time.Time) (c claimed, err error) {
	c.from = s.waiting.heads(r.Subscriptions)
	err = s.db.Read(ctx, func(ctx context.Context, q db.Querier) (err error) {
		if c.claims, c.rest, err = s.readUnleased(ctx, q, r, now); err != nil {
			return err
		}
		return s.complete(ctx, q, c.claims)
	})
	return c, err
}

func (s *Store) readUnleased(ctx context.Context, q db.Querier, r ClaimRequest, now time.Time) (claims []Claim, rest []first, err error) {
	// SQLite's LIMIT takes no column, so queues of which about as many are held are read
	// together. One of which thousands are held would else have as many read of every other.
	alike := make(map[int][]string)
	for _, id := range r.Subscriptions {
		held := bits.Len(uint(r.Held[id]))
		alike[held] = append(alike[held], id)
	}
	var all []Claim
	for held, ids := range alike {
		some, err := db.All(ctx, q, scanClaim, `SELECT `+db.Prefixed("d", claimColumns)+` FROM json_each(?) s CROSS JOIN deliveries d WHERE d.rowid IN (
			SELECT rowid FROM deliveries WHERE state = 'pending' AND subscription_id = s.value AND due_at <= ?
			ORDER BY due_at LIMIT ?)`, s.db.Set(ids), store.Micros(now), r.Each+1<<held)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	sortByDue(all)
	rest, err = db.All(ctx, q, scanFirst, `SELECT id, due_at FROM (
		SELECT value AS id, (SELECT min(due_at) FROM deliveries
			WHERE state = 'pending' AND subscription_id = value AND due_at > ?) AS due_at
		FROM json_each(?)) h WHERE due_at IS NOT NULL`, store.Micros(now), s.db.Set(r.Subscriptions))
	if err != nil {
		return nil, nil, err
	}
	ends := store.Micros(now.Add(r.Lease))
	count := make(map[string]int, len(r.Subscriptions))
	for _, c := range all {
		if _, seen := count[c.SubscriptionID]; !seen {
			count[c.SubscriptionID] = 0
			rest = append(rest, first{c.SubscriptionID, ends})
		}
		if r.Holds != nil && r.Holds(c.ID) {
			continue
		}
		if count[c.SubscriptionID]++; count[c.SubscriptionID] <= r.Each {
			claims = append(claims, c)
		} else {
			rest = append(rest, first{c.SubscriptionID, store.Micros(now)})
		}
	}
	return claims, rest, nil
}

const eventsOfClaims = `SELECT id, account_id, type, body FROM events WHERE `

// complete adds to claims what their events and subscriptions hold.
func (s *Store) complete(ctx context.Context, q db.Querier, claims []Claim) error {
	if len(claims) == 0 {
		return nil
	}
	events, subscriptions := make(map[string]store.Event), make(map[string]bool)
	for _, c := range claims {
		events[c.EventID], subscriptions[c.SubscriptionID] = store.Event{}, true
	}
	read, err := db.All(ctx, q, func(row db.Row) (e store.Event, err error) {
		err = row.Scan(&e.ID, &e.AccountID, &e.Type, (*[]byte)(&e.Body))
		return e, err
	}, eventsOfClaims+s.db.In("id"), s.db.Set(slices.Collect(maps.Keys(events))))
	if err != nil {
		return err
	}
	for _, e := range read {
		events[e.ID] = e
	}
	endpoints, err := s.endpoints(ctx, q, slices.Collect(maps.Keys(subscriptions)))
	if err != nil {
		return err
	}
	for i := range claims {
		c := &claims[i]
		e := events[c.EventID]
		c.AccountID, c.EventType, c.Body, c.Endpoint = e.AccountID, e.Type, e.Body, endpoints[c.SubscriptionID]
	}
	return nil
}

// leaseSlice is how many leases one transaction ends.
const leaseSlice = 5000

// EndLeases ends every lease that owner has, so that others need not wait for
// that. It is for an owner that stops, or that starts again under the name it
// had. It works in slices; when err is not nil, some may have ended.
func (s *Store) EndLeases(ctx context.Context, owner string) (ended int, err error) {
	const op = "end leases of deliveries"
	if owner == "" || !valid.Text(owner) {
		return 0, db.Fail(op, valid.Errorf("owner is not set"))
	}
	for {
		var ids []string
		err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			// What is leased is not due, so few rows are looked at in a long queue.
			ids, err = t.Strings(ctx, queuesWaiting+`SELECT d.id FROM queues CROSS JOIN deliveries d
				WHERE d.state = 'pending' AND d.subscription_id = queues.id AND d.due_at > ? AND d.lease_owner = ?
				LIMIT ?`, store.Micros(t.Now()), owner, leaseSlice)
			if err != nil || len(ids) == 0 {
				return err
			}
			_, err = t.Exec(ctx, `UPDATE deliveries SET lease_owner = '', due_at = next_at`+s.written()+`
				WHERE lease_owner = ? AND state = 'pending' AND `+t.In("id"), owner, t.Set(ids))
			return err
		})
		if err != nil {
			return ended, db.Fail(op, err)
		}
		if ended += len(ids); len(ids) < leaseSlice {
			if !s.db.Postgres() { // where looks will see it
				s.waiting.renew()
			}
			return ended, nil
		}
	}
}
