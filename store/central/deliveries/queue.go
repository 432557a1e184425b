package deliveries

import (
	"context"
	"time"

	"partneredge/store/central/db"
)

// Queue is a subscription that deliveries wait for.
type Queue struct {
	SubscriptionID string
	DueAt          time.Time // of the first, by this process's clock: when to try it, or when the lease on it ends
}

func scanQueue(row db.Row) (q Queue, err error) {
	err = row.Scan(&q.SubscriptionID, db.Time(&q.DueAt))
	return q, err
}

func (s *Store) localQueues(queues []Queue) []Queue {
	for i := range queues {
		queues[i].DueAt = s.db.Local(queues[i].DueAt)
	}
	return queues
}

// queuesWaiting walks the queue's index from subscription to subscription,
// however many deliveries each has waiting. Its last row is NULL.
const queuesWaiting = `WITH RECURSIVE queues(id) AS (
		SELECT min(subscription_id) FROM deliveries WHERE state = 'pending'
		UNION ALL
		SELECT (SELECT min(subscription_id) FROM deliveries WHERE state = 'pending' AND subscription_id > queues.id)
		FROM queues WHERE queues.id IS NOT NULL
	) `

// wholeQueue lists all queues. It costs a few microseconds for each of them, however
// many deliveries each has, but on PostgreSQL as much for each dead entry of the index.
const wholeQueue = `SELECT id, due_at FROM (
		SELECT id, (SELECT min(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = queues.id) AS due_at
		FROM queues WHERE id IS NOT NULL) heads WHERE due_at IS NOT NULL`

// Queues lists the subscriptions that deliveries wait for. On PostgreSQL it may list
// one whose last delivery has just ended, until that would have been due.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	const tried = "list queues"
	if !s.db.Postgres() {
		queues, err := db.All(ctx, s.db, scanQueue, queuesWaiting+wholeQueue)
		return s.localQueues(queues), db.Fail(tried, err)
	}
	now := s.db.Now()
	err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := s.look(ctx, t); err != nil {
			return err
		}
		from := s.waiting.unsure(now)
		if len(from) == 0 {
			return nil
		}
		found, err := firstOf(ctx, t, from)
		if err == nil {
			s.waiting.found(from, found, now)
		}
		return err
	})
	if err != nil {
		return nil, db.Fail(tried, err)
	}
	return s.localQueues(s.waiting.list()), nil
}

// firstOf finds when the first waiting delivery of each subscription is due. It reads
// the queue from where nothing can be due before.
func firstOf(ctx context.Context, t *db.Tx, from []head) ([]Queue, error) {
	ids, dues := columns(from)
	return db.All(ctx, t, scanQueue, `SELECT id, due_at FROM (
		SELECT s.id, (SELECT min(due_at) FROM deliveries
			WHERE state = 'pending' AND subscription_id = s.id AND due_at >= s.due) AS due_at
		FROM unnest(?::text[], ?::bigint[]) AS s(id, due)) h WHERE due_at IS NOT NULL`, ids, dues)
}

// written returns what each UPDATE of PostgreSQL's deliveries sets that makes one wait
// or moves it in the queue.
func (s *Store) written() string {
	if s.db.Postgres() {
		return `, written = pg_current_xact_id()`
	}
	return ""
}

// seen begins a look. Its columns are which start of the server answers, what the look
// sees, and whether that is behind what an earlier look saw, as after a failover.
const seen = `SELECT now.*, news.* FROM (SELECT pg_postmaster_start_time()::text, pg_current_snapshot()::text,
		pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(?::pg_snapshot)) now
	LEFT JOIN (`

// news reads what is pending and was written by transactions that an earlier look did
// not see. A restored copy may hold numbers that its server has yet to give. By state
// alone PostgreSQL would rather read the whole index of the queue: it knows that little
// waits, and not of the dead entries.
const news = seen + `SELECT subscription_id, min(due_at) FROM (
			SELECT subscription_id, due_at FROM deliveries WHERE state || '' = 'pending'
				AND written >= pg_snapshot_xmax(?::pg_snapshot) AND written < pg_snapshot_xmax(pg_current_snapshot())
			UNION ALL
			SELECT subscription_id, due_at FROM deliveries WHERE state || '' = 'pending'
				AND written = ANY (ARRAY(SELECT pg_snapshot_xip(?::pg_snapshot)))) written
		GROUP BY subscription_id) news ON true`

// look brings what is known of the queue up to date. t has not written yet.
func (s *Store) look(ctx context.Context, t *db.Tx) error {
	if before, known := s.waiting.lastLook(); known {
		v, err := readView(ctx, t, news, before.sees, before.sees, before.sees)
		if err != nil {
			return err
		}
		if s.waiting.add(before, v, s.db.Now()) {
			return nil
		}
	}
	v, err := readView(ctx, t, queuesWaiting+seen+wholeQueue+`) news ON true`, nothingSeen)
	if err == nil {
		s.waiting.replace(v, s.db.Now())
	}
	return err
}

// nothingSeen is a snapshot that sees nothing.
const nothingSeen = "1:1:"

func readView(ctx context.Context, t *db.Tx, query string, args ...any) (v view, err error) {
	_, err = db.All(ctx, t, func(row db.Row) (struct{}, error) {
		var id *string
		var due *int64
		err := row.Scan(&v.server, &v.sees, &v.behind, &id, &due)
		if err == nil && id != nil {
			v.heads = append(v.heads, head{id: *id, due: *due})
		}
		return struct{}{}, err
	}, query, args...)
	return v, err
}
