package deliveries

import (
	"context"
	"time"

	"partneredge/store/central/db"
)

// BacklogMost bounds the waiting deliveries that ReadBacklog counts.
const BacklogMost = 100_000

// backlogQueues bounds the subscriptions of which ReadBacklog reads the first delivery. That
// takes as long as counting BacklogMost.
const backlogQueues = 5_000

// Backlog sums up the deliveries that wait.
type Backlog struct {
	Pending int // that wait, at most BacklogMost
	// Overdue is for how long the first of these has been due without a try that ended, of
	// subscriptions that do not fail; 0 when none is. Those of an endpoint that fails, such
	// as one that does not answer, wait for it, and not for the sender. It goes by NextAt: a
	// lease that is renewed again and again would hide that nothing is tried.
	Overdue time.Duration
}

// ReadBacklog counts what waits. It reads the first delivery alone of each subscription, in
// the order of their ids, so that those of one that fails hide no other's.
func (s *Store) ReadBacklog(ctx context.Context) (Backlog, error) {
	b, err := db.One(ctx, s.db, func(row db.Row) (b Backlog, err error) {
		var due time.Time
		err = row.Scan(&b.Pending, db.Time(&due))
		if !due.IsZero() {
			b.Overdue = max(0, s.db.Now().Sub(due))
		}
		return b, err
	}, queuesWaiting+`SELECT (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = 'pending' LIMIT ?) waiting),
		min(CASE WHEN (SELECT failing_from FROM subscriptions WHERE id = queue.id) = 0 THEN (SELECT next_at FROM deliveries
			WHERE state = 'pending' AND subscription_id = queue.id ORDER BY due_at LIMIT 1) END)
		FROM (SELECT id FROM queues WHERE id IS NOT NULL LIMIT ?) queue`, BacklogMost, backlogQueues)
	return b, db.Fail("count waiting deliveries", err)
}
