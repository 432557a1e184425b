package deliveries

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
	"partneredge/wasm/typeid"
)

// logColumns reads a delivery d. Each row's event is looked up by itself: of a join
// PostgreSQL might rather read every partition of the events in order.
const logColumns = `d.id, d.event_id, (SELECT type FROM events WHERE id = d.event_id), d.subscription_id,
	(SELECT account_id FROM subscriptions WHERE id = d.subscription_id),
	d.state, d.attempts, d.next_at, d.created_at, d.updated_at`

const deliveryByID = `SELECT ` + logColumns + ` FROM deliveries d WHERE d.id = ?`

func scanDelivery(row db.Row) (d store.Delivery, err error) {
	err = row.Scan(&d.ID, &d.EventID, &d.EventType, &d.SubscriptionID, &d.AccountID, &d.State, &d.Attempts,
		db.Time(&d.NextAt), db.Time(&d.CreatedAt), db.Time(&d.UpdatedAt))
	return d, err
}

// Filter selects a part of the log; what is not set selects all of it.
type Filter struct {
	AccountID      string
	SubscriptionID string
	EventID        string
	EventType      string
	Target         string      // a part of the URL of the subscription
	State          store.State // "" any
	// Refused: only those whose last try the guard refused. It looks at all of
	// the part that were not delivered.
	Refused bool
	// Since and Until bound when the delivery was made: at Since or later, before
	// Until. Not together with one subscription or event, whose order is another.
	Since, Until time.Time
}

// listing is the query that a Filter stands for.
type listing struct {
	name  string // in cursors
	from  string // the tables and conditions
	args  []any
	order string // the column that pages go by
	place func(store.Delivery) string
}

// query returns the query of a page, which it reads to its end before the first row: SQLite's
// driver lets a context end no other step.
func (l *listing) query() string {
	return `WITH page AS MATERIALIZED (SELECT ` + logColumns + ` FROM ` + l.from + ` ORDER BY ` + l.order + ` DESC LIMIT ?)
		SELECT * FROM page ORDER BY ` + strings.TrimPrefix(l.order, "d.") + ` DESC`
}

func (l *listing) and(condition string, args ...any) {
	l.from += ` AND ` + condition
	l.args = append(l.args, args...)
}

// Deliveries lists the log, the newest first: of one subscription by event, of one
// event by subscription, else by delivery.
func (s *Store) Deliveries(ctx context.Context, f Filter, p store.Page) ([]store.Delivery, string, error) {
	const op = "list deliveries"
	l, err := s.listing(ctx, f)
	if err != nil {
		return nil, "", db.Fail(op, err)
	}
	if err := f.narrow(&l, p.Cursor); err != nil {
		return nil, "", db.Fail(op, err)
	}
	limit := db.PageLimit(p)
	items, err := db.All(ctx, s.db, scanDelivery, l.query(), append(l.args, limit+1)...)
	if err != nil || len(items) <= limit {
		return items, "", db.Fail(op, err)
	}
	return items[:limit], db.Cursor(l.name, l.place(items[limit-1])), nil
}

// narrow adds the conditions on deliveries and events, and has the list go on from a cursor.
func (f Filter) narrow(l *listing, cursor string) error {
	switch f.State {
	case "":
	case store.StateDead, store.StatePending: // as a literal, so that its own index can serve
		l.and(`d.state = '` + string(f.State) + `'`)
	default:
		l.and(`d.state = ?`, string(f.State))
	}
	if f.Refused {
		l.and(`d.state <> 'delivered' AND EXISTS (SELECT 1 FROM attempts a
			WHERE a.delivery_id = d.id AND a.number = d.attempts AND a.error LIKE 'refused by guard:%')`)
	}
	if f.EventType != "" {
		l.and(`EXISTS (SELECT 1 FROM events e WHERE e.id = d.event_id AND e.type = ?)`, f.EventType)
	}
	if !f.Since.IsZero() {
		l.and(`d.id >= ?`, db.FirstID("dlv", f.Since))
		f.boundEvents(l, ">=", f.Since)
	}
	if !f.Until.IsZero() {
		l.and(`d.id < ?`, db.FirstID("dlv", f.Until))
		f.boundEvents(l, "<", f.Until)
	}
	if cursor == "" {
		return nil
	}
	place, err := db.Place(l.name, cursor)
	if err != nil {
		return err
	}
	l.and(l.order+` < ?`, place)
	if milli, ok := typeid.UnixMilli(place); ok && l.order == "d.id" {
		f.boundEvents(l, "<", time.UnixMilli(milli+1))
	}
	return nil
}

// boundEvents bounds the events as the deliveries are, which are made in their event's
// millisecond: the index of a subscription's log goes by event. What is pending has an index
// of its own, which SQLite would not take then.
func (f Filter) boundEvents(l *listing, sign string, at time.Time) {
	if f.State != store.StatePending {
		l.and(`d.event_id `+sign+` ?`, db.FirstID("evt", at))
	}
}

// listing begins the query of a filter, once what it names is found.
func (s *Store) listing(ctx context.Context, f Filter) (l listing, err error) {
	if err := f.validate(); err != nil {
		return l, err
	}
	switch {
	case f.SubscriptionID != "":
		if err := s.mustHave(ctx, "subscriptions", f.SubscriptionID); err != nil {
			return l, err
		}
		l = listing{
			name: "deliveries of " + f.SubscriptionID, order: "d.event_id",
			from: `deliveries d WHERE d.subscription_id = ?`, args: []any{f.SubscriptionID},
			place: func(d store.Delivery) string { return d.EventID },
		}
		if f.EventID != "" {
			l.and(`d.event_id = ?`, f.EventID)
		}
		return l, nil
	case f.EventID != "":
		if err := s.mustHave(ctx, "events", f.EventID); err != nil {
			return l, err
		}
		from, until := deliveriesOf(f.EventID)
		return listing{
			name: "deliveries of " + f.EventID, order: "d.subscription_id",
			from: `deliveries d WHERE d.id >= ? AND d.id < ? AND d.event_id = ?`, args: []any{from, until, f.EventID},
			place: func(d store.Delivery) string { return d.SubscriptionID },
		}, nil
	}
	if f.AccountID != "" {
		if err := s.mustHave(ctx, "accounts", f.AccountID); err != nil {
			return l, err
		}
	}
	l = listing{
		name: fmt.Sprintf("deliveries %q %q %q %q %t %d %d", f.AccountID, f.EventType, f.Target, f.State, f.Refused, f.Since.UnixMilli(), f.Until.UnixMilli()),
		// SQLite joins in this order: by time, and with an index of a state by it.
		from:  `deliveries d CROSS JOIN subscriptions s WHERE s.id = d.subscription_id`,
		order: "d.id", place: func(d store.Delivery) string { return d.ID },
	}
	if f.State == store.StateDead || f.State == store.StatePending || f.AccountID != "" {
		l.from = `subscriptions s CROSS JOIN deliveries d WHERE d.subscription_id = s.id`
	}
	if f.AccountID != "" {
		l.and(`s.account_id = ?`, f.AccountID)
	}
	if f.Target != "" { // LIKE is not the same on both databases
		l.and(`replace(s.target_url, ?, '') <> s.target_url`, f.Target)
	}
	return l, nil
}

func (f Filter) validate() error {
	refused := errors.Join(valid.Times(f.Since, f.Until), valid.Texts("event type", f.EventType, "target", f.Target))
	if f.State != "" {
		refused = errors.Join(refused, validateState(f.State))
	}
	if f.SubscriptionID != "" || f.EventID != "" {
		if f.AccountID != "" || f.Target != "" || !f.Since.IsZero() || !f.Until.IsZero() {
			refused = errors.Join(refused, valid.Errorf("account, target and time do not go with one subscription or event"))
		}
	}
	if refused != nil {
		return refused
	}
	for noun, id := range map[string]string{"account": f.AccountID, "subscription": f.SubscriptionID, "event": f.EventID} {
		if id != "" {
			if err := valid.Reference(noun, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// mustHave returns an error when a table has no row of an id.
func (s *Store) mustHave(ctx context.Context, table, id string) error {
	var found int
	return s.db.QueryRow(ctx, `SELECT 1 FROM `+table+` WHERE id = ?`, id).Scan(&found)
}

// Bounds of the search for an attempt whose id begins with its own time and not the
// delivery's, as an earlier program made it: how long before it its delivery was made,
// and how many attempts before it are looked at.
const (
	oldAttempts     = time.Hour
	oldAttemptsRead = 1000
)

// attemptOf finds the delivery of an attempt among deliveries of a stretch of time, the
// newest first. It looks at a number of attempts at most.
const attemptOf = `SELECT delivery_id FROM (SELECT delivery_id, id FROM attempts WHERE delivery_id >= ? AND delivery_id < ?
	ORDER BY delivery_id DESC LIMIT ?) newest WHERE id = ?`

// FindDelivery reads the delivery with an id, or else the one of which an attempt has
// it: that is the id that its endpoint was sent. An attempt is found by the millisecond
// of its delivery, with which its id begins.
func (s *Store) FindDelivery(ctx context.Context, id string) (store.Delivery, error) {
	d, err := s.Delivery(ctx, id)
	milli, ok := typeid.UnixMilli(id)
	if !errors.Is(err, store.ErrNotFound) || !ok {
		return d, err
	}
	at := time.UnixMilli(milli)
	for _, from := range []struct {
		since time.Time
		most  int
	}{{at, math.MaxInt32}, {at.Add(-oldAttempts), oldAttemptsRead}} {
		of, err := db.All(ctx, s.db, db.Column[string], attemptOf, db.FirstID("dlv", from.since), db.FirstID("dlv", at.Add(time.Millisecond)), from.most, id)
		if err != nil {
			return d, db.Fail("find delivery", err)
		}
		if len(of) > 0 {
			return s.Delivery(ctx, of[0])
		}
	}
	return d, err
}

// Delivery reads one delivery.
func (s *Store) Delivery(ctx context.Context, id string) (d store.Delivery, err error) {
	const op = "read delivery"
	if err := valid.Reference("delivery", id); err != nil {
		return d, db.Fail(op, err)
	}
	d, err = scanDelivery(s.db.QueryRow(ctx, deliveryByID, id))
	return d, db.Fail(op, err)
}

const attemptColumns = `id, delivery_id, number, started_at, latency_us, status, headers, excerpt, error`

const attemptsOf = `SELECT ` + attemptColumns + ` FROM attempts WHERE delivery_id = ? ORDER BY number`

func scanAttempt(row db.Row) (a store.Attempt, err error) {
	var latency int64
	err = row.Scan(&a.ID, &a.DeliveryID, &a.Number, db.Time(&a.StartedAt), &latency, &a.Status,
		db.JSON(&a.Headers), &a.Excerpt, &a.Error)
	a.Latency = time.Duration(latency) * time.Microsecond
	return a, err
}

// Attempts lists the tries of a delivery, first to last.
func (s *Store) Attempts(ctx context.Context, deliveryID string) ([]store.Attempt, error) {
	const op = "list attempts"
	if _, err := s.Delivery(ctx, deliveryID); err != nil {
		return nil, db.Fail(op, err)
	}
	items, err := db.All(ctx, s.db, scanAttempt, attemptsOf, deliveryID)
	return items, db.Fail(op, err)
}

// AttemptsOf lists the tries of each of some deliveries, by the delivery's id.
func (s *Store) AttemptsOf(ctx context.Context, of []store.Delivery) (map[string][]store.Attempt, error) {
	var ids []string
	for _, d := range of {
		if d.Attempts > 0 {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	all := make(map[string][]store.Attempt)
	err := db.Each(ctx, s.db, func(row db.Row) error {
		a, err := scanAttempt(row)
		all[a.DeliveryID] = append(all[a.DeliveryID], a)
		return err
	}, `SELECT `+attemptColumns+` FROM attempts
		WHERE `+s.db.In("delivery_id")+` ORDER BY delivery_id, number`, s.db.Set(ids))
	return all, db.Fail("list attempts", err)
}

// CountMost bounds the deliveries that CountOutcomes looks at.
const CountMost = 10_000

// CountOutcomes counts by state the newest deliveries of events since a time, at
// most CountMost of them, so that it costs the same however long the log is.
func (s *Store) CountOutcomes(ctx context.Context, since time.Time) (map[store.State]int, error) {
	const op = "count outcomes of deliveries"
	if err := valid.Times(since); err != nil {
		return nil, db.Fail(op, err)
	}
	counts, err := db.Map[store.State, int](ctx, s.db, `SELECT newest.state, count(*)
		FROM (SELECT state FROM deliveries WHERE id >= ? ORDER BY id DESC LIMIT ?) newest GROUP BY newest.state`,
		db.FirstID("dlv", since), CountMost)
	return counts, db.Fail(op, err)
}
