package deliveries

import (
	"context"
	"time"

	"partneredge/store/central/db"
)

// BacklogMost bounds the waiting deliveries that ReadBacklog looks at.
const BacklogMost = 100_000

// Backlog sums up the deliveries that wait.
type Backlog struct {
	Pending int // that wait, at most BacklogMost
	// Overdue is for how long the first of these has been due, of subscriptions that do not
	// fail; 0 when none is, or all are leased. Those of an endpoint that fails, such as one
	// that does not answer, wait for it, and not for the sender.
	Overdue time.Duration
}

// ReadBacklog counts what waits. It reads no more than BacklogMost entries of the
// queue's index.
func (s *Store) ReadBacklog(ctx context.Context) (Backlog, error) {
	b, err := db.One(ctx, s.db, func(row db.Row) (b Backlog, err error) {
		var due time.Time
		err = row.Scan(&b.Pending, db.Time(&due))
		if !due.IsZero() {
			b.Overdue = max(0, s.db.Now().Sub(due))
		}
		return b, err
	}, `SELECT CAST(coalesce(sum(queue.waits), 0) AS BIGINT), min(CASE WHEN s.failing_from = 0 THEN queue.due END)
		FROM (SELECT subscription_id, count(*) AS waits, min(due_at) AS due
			FROM (SELECT subscription_id, due_at FROM deliveries WHERE state = 'pending' LIMIT ?) waiting
			GROUP BY subscription_id) queue
		LEFT JOIN subscriptions s ON s.id = queue.subscription_id`, BacklogMost)
	return b, db.Fail("count waiting deliveries", err)
}
