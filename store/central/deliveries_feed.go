package central

import (
	"context"
	"errors"
	"slices"
	"time"

	"partneredge/store"
)

// Queue is a subscription that deliveries wait for.
type Queue struct {
	SubscriptionID string
	DueAt          time.Time // of the first: when to try it, or when the lease on it ends
}

// Queues lists the subscriptions that deliveries wait for. It costs a few
// microseconds for each of them, however many deliveries each has.
func (db *DB) Queues(ctx context.Context) ([]Queue, error) {
	const tried = "list queues"
	rows, err := db.query(ctx, dueHeads+`SELECT id, due_at FROM heads WHERE due_at IS NOT NULL`)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	queues, err := scanQueues(rows)
	return queues, db.fail(tried, err)
}

func scanQueues(rows rowsOf) ([]Queue, error) {
	defer func() { _ = rows.Close() }()
	var queues []Queue
	for rows.Next() {
		var q Queue
		if err := rows.Scan(&q.SubscriptionID, asTime(&q.DueAt)); err != nil {
			return nil, err
		}
		queues = append(queues, q)
	}
	return queues, rows.Err()
}

type rowsOf interface {
	scanner
	Next() bool
	Err() error
	Close() error
}

// ClaimRequest names the queues to claim from, and who claims.
type ClaimRequest struct {
	Owner         string
	Lease         time.Duration
	Subscriptions []string
	Each          int // the most from each subscription
	// Holds tells whether the owner has a delivery in hand, and Held how many of
	// one subscription it has at most. A database of one process keeps no leases
	// of claims, since nobody else could claim; it passes these over instead.
	Holds func(deliveryID string) bool
	Held  int
}

// ClaimFrom gives the owner due deliveries of the subscriptions named, in the
// order in which they are due. rest tells of each that has more waiting when
// the first of those is due. A lease that ends without FinishDeliveries makes
// the delivery due again.
func (db *DB) ClaimFrom(ctx context.Context, r ClaimRequest) (claims []Claim, rest []Queue, err error) {
	const tried = "claim deliveries"
	if r.Each <= 0 || r.Owner == "" || r.Lease <= 0 || !validText(r.Owner) {
		return nil, nil, db.fail(tried, invalid("owner, share and lease must be set"))
	}
	if len(r.Subscriptions) == 0 {
		return nil, nil, nil
	}
	if !db.postgres {
		claims, rest, err = db.readDue(ctx, r)
		return claims, rest, db.fail(tried, err)
	}
	now := db.now()
	err = db.apart(ctx, func(ctx context.Context, t *tx) error {
		var err error
		if claims, err = t.claim(ctx, r.Subscriptions, r.Owner, r.Each*len(r.Subscriptions), now, r.Lease); err != nil {
			return err
		}
		if rest, err = t.heads(ctx, r.Subscriptions, time.Time{}); err != nil {
			return err
		}
		return t.complete(ctx, claims)
	})
	if err != nil {
		return nil, nil, db.fail(tried, err)
	}
	return claims, rest, nil
}

// readDue is ClaimFrom without leases: it only reads, so it waits for no writer.
func (db *DB) readDue(ctx context.Context, r ClaimRequest) (claims []Claim, rest []Queue, err error) {
	conn, err := db.read.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	t := &tx{db: db, conn: conn}
	if err := t.control(ctx, "BEGIN"); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, t.control(context.WithoutCancel(ctx), "ROLLBACK")) }()
	now := db.now()
	rows, err := t.query(ctx, `SELECT `+prefixed("d", claimed)+` FROM json_each(?) s CROSS JOIN deliveries d WHERE d.rowid IN (
		SELECT rowid FROM deliveries WHERE state = 'pending' AND subscription_id = s.value AND due_at <= ?
		ORDER BY due_at LIMIT ?)`, db.set(r.Subscriptions), micros(now), r.Each+r.Held+1)
	if err != nil {
		return nil, nil, err
	}
	all, err := scanClaims(rows)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(all, func(a, b Claim) int { return a.NextAt.Compare(b.NextAt) })
	count := make(map[string]int, len(r.Subscriptions))
	for _, c := range all {
		if r.Holds != nil && r.Holds(c.ID) {
			continue
		}
		if count[c.SubscriptionID]++; count[c.SubscriptionID] <= r.Each {
			claims = append(claims, c)
		}
	}
	later, err := t.heads(ctx, r.Subscriptions, now)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range later {
		if count[q.SubscriptionID] <= r.Each {
			rest = append(rest, q)
		}
	}
	for id, n := range count {
		if n > r.Each {
			rest = append(rest, Queue{SubscriptionID: id, DueAt: now})
		}
	}
	return claims, rest, t.complete(ctx, claims)
}

// heads finds when the first waiting delivery of each subscription is due that
// is due after a time.
func (t *tx) heads(ctx context.Context, subscriptions []string, after time.Time) ([]Queue, error) {
	list := `(SELECT value AS id FROM json_each(?)) s`
	if t.db.postgres {
		list = `unnest(?::text[]) s(id)`
	}
	rows, err := t.query(ctx, `SELECT id, due_at FROM (
		SELECT s.id, (SELECT min(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = s.id AND due_at > ?) AS due_at
		FROM `+list+`) h WHERE due_at IS NOT NULL`, micros(after), t.db.set(subscriptions))
	if err != nil {
		return nil, err
	}
	return scanQueues(rows)
}

// Standing is what may be sent to a subscription now, and how.
type Standing struct {
	TargetURL   string
	Secrets     []string // that sign, the newest first
	FailingFrom time.Time
	// Deliverable: not revoked, made with a live key, of an account that is live.
	Deliverable bool
}

// StandingsVersion rises before any call of this process that changes how a
// subscription stands returns: what was read at an earlier version may be old.
func (db *DB) StandingsVersion() uint64 { return db.standings.Load() }

// Standings reads how subscriptions stand. One that does not exist is missing.
func (db *DB) Standings(ctx context.Context, subscriptions []string) (map[string]Standing, error) {
	const tried = "read standings"
	rows, err := db.query(ctx, `SELECT s.id, s.target_url, s.revoked_at, s.failing_from, s.environment, a.mode, `+signingColumns+`
		FROM subscriptions s JOIN accounts a ON a.id = s.account_id WHERE `+db.in("s.id"), db.set(subscriptions))
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	all := make(map[string]Standing, len(subscriptions))
	for rows.Next() {
		var id string
		var s Standing
		var revokedAt time.Time
		var environment store.Environment
		var mode store.Mode
		var keys signing
		if err := rows.Scan(append([]any{&id, &s.TargetURL, asTime(&revokedAt), asTime(&s.FailingFrom), &environment, &mode}, keys.scan()...)...); err != nil {
			return nil, db.fail(tried, err)
		}
		s.Secrets = db.secrets(id, keys)
		s.Deliverable = revokedAt.IsZero() && environment == store.Live && mode == store.ModeLive
		all[id] = s
	}
	return all, db.fail(tried, rows.Err())
}
