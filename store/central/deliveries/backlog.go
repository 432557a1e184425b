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
	Pending int           // that wait, at most BacklogMost
	Overdue time.Duration // for how long the first of these has been due; 0 when none is, or all are leased
}

// ReadBacklog counts what waits. It reads no more than BacklogMost entries of the
// queue's index.
func (s *Store) ReadBacklog(ctx context.Context) (Backlog, error) {
	b, err := db.One(ctx, s.db, func(row db.Row) (b Backlog, err error) {
		var due time.Time
		err = row.Scan(&b.Pending, db.Time(&due))
		if b.Pending > 0 {
			b.Overdue = max(0, s.db.Now().Sub(due))
		}
		return b, err
	}, `SELECT count(*), coalesce(min(due_at), 0)
		FROM (SELECT due_at FROM deliveries WHERE state = 'pending' LIMIT ?) waiting`, BacklogMost)
	return b, db.Fail("count waiting deliveries", err)
}
