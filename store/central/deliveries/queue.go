package deliveries

import (
	"context"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

// first is when the first delivery is due that waits for a subscription: when to try it,
// or when the lease on it ends.
type first struct {
	subscription string
	due          int64 // in microseconds
}

func scanFirst(row db.Row) (f first, err error) {
	err = row.Scan(&f.subscription, &f.due)
	return f, err
}

// queuesWaiting walks the queue's index from subscription to subscription,
// however many deliveries each has waiting. Its last row is NULL.
const queuesWaiting = `WITH RECURSIVE queues(id) AS (
		SELECT min(subscription_id) FROM deliveries WHERE state = 'pending'
		UNION ALL
		SELECT (SELECT min(subscription_id) FROM deliveries WHERE state = 'pending' AND subscription_id > queues.id)
		FROM queues WHERE queues.id IS NOT NULL
	) `

// walkSlice bounds the subscriptions that one slice of the walk reads.
const walkSlice = 2000

// sliceOfQueue reads the heads of the next subscriptions, as many as a slice has at most, and
// when the last delivery is due that waits for each.
// It costs a few microseconds for each of them, however many deliveries each has, but on
// PostgreSQL as much for each dead entry of the index.
const sliceOfQueue = `WITH RECURSIVE queues(id, n) AS (
		SELECT (SELECT min(subscription_id) FROM deliveries WHERE state = 'pending' AND subscription_id > ?), 1
		UNION ALL
		SELECT (SELECT min(subscription_id) FROM deliveries WHERE state = 'pending' AND subscription_id > queues.id), n + 1
		FROM queues WHERE queues.id IS NOT NULL AND n < ?
	) SELECT id, (SELECT min(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = queues.id),
		(SELECT max(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = queues.id)
	FROM queues WHERE id IS NOT NULL ORDER BY id`

// Due lists up to most subscriptions that have deliveries due which nobody else has
// claimed, those that have been due for longest first. It lists each of them once:
// whoever is told of one claims from it until ClaimDeliveries has no more of it that is
// due. next is when to call Due again, unless something is written before: the zero time
// when nothing is known to wait.
//
// It costs as much as was written since the last call and is due now, not as much as
// waits. But after the start, when the clock was put back, and every ten minutes it reads the
// whole queue, in slices. What is due further ahead than farthest then, and was written at a
// time that is yet to come, was written before the clock was put back, and is due at once;
// farthest 0: as far ahead as it says.
func (s *Store) Due(ctx context.Context, most int, farthest time.Duration) (subscriptions []string, next time.Time, err error) {
	now := s.db.Now()
	if s.waiting.noteClock(now) {
		s.waiting.renew()
	}
	due, err := s.due(ctx, most, farthest, now)
	if next = s.waiting.next(); !next.IsZero() {
		next = s.db.Local(next)
	}
	return due, next, db.Fail("list queues", err)
}

func (s *Store) due(ctx context.Context, most int, farthest time.Duration, now time.Time) ([]string, error) {
	if err := s.readQueue(ctx, farthest, now); err != nil {
		return nil, err
	}
	sure, unsure := s.waiting.claimable(now, most)
	if len(unsure) == 0 {
		return sure, nil
	}
	rest, err := s.firstOf(ctx, s.db, unsure)
	if err != nil {
		s.waiting.putBack(sure, unsure)
		return nil, err
	}
	return append(sure, s.waiting.resolve(unsure, rest, now)...), nil
}

// readQueue brings what is known of the queue up to date, and goes on with the walk.
func (s *Store) readQueue(ctx context.Context, farthest time.Duration, now time.Time) error {
	var late []string
	var err error
	if s.db.Postgres() {
		err = s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			if err = s.look(ctx, t); err == nil {
				late, err = s.walk(ctx, t, farthest, now)
			}
			return err
		})
	} else {
		late, err = s.walk(ctx, s.db, farthest, now)
	}
	if err != nil || len(late) == 0 {
		return err
	}
	return s.hasten(ctx, late, farthest, now)
}

// walk reads a slice of the whole queue when that is due. late are the subscriptions for
// which something waits that is due further ahead than this process would have it.
func (s *Store) walk(ctx context.Context, q db.Querier, farthest time.Duration, now time.Time) (late []string, err error) {
	from, ok := s.waiting.nextSlice()
	if !ok {
		return nil, nil
	}
	heads, err := db.All(ctx, q, func(row db.Row) (h head, err error) {
		var last int64
		if err = row.Scan(&h.id, &h.due, &last); farthest > 0 && last > store.Micros(now.Add(farthest)) {
			late = append(late, h.id)
		}
		return h, err
	}, sliceOfQueue, from.to, walkSlice)
	if err == nil {
		s.waiting.addSlice(from, heads, len(heads) == walkSlice, now)
	}
	return late, err
}

// hastenSlice bounds the deliveries that one transaction hastens.
const hastenSlice = 5000

// hastenLease is for whoever is just trying what is hastened.
const hastenLease = time.Minute

// nextToHasten returns the query of deliveries that are due and were written after two times. It
// asks for no order: by their ids, each slice would sort all that are left.
func nextToHasten(d *db.DB) string {
	return `SELECT id FROM deliveries WHERE state = 'pending' AND ` + d.In("subscription_id") + ` AND due_at > ? AND updated_at > ? LIMIT ?`
}

// hasten makes those deliveries to subscriptions due at once that are due after farthest
// and were written at a time that is yet to come: a process with a longer schedule may have
// written the others. What is leased may be under way, and is due a little later.
func (s *Store) hasten(ctx context.Context, subscriptions []string, farthest time.Duration, now time.Time) error {
	at := store.Micros(now)
	dueAfter, writtenAfter := store.Micros(now.Add(farthest)), store.Micros(now.Add(clockJitter))
	all := int64(0)
	for more := true; more; {
		var hastened int64
		err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			found, err := t.Strings(ctx, nextToHasten(s.db), t.Set(subscriptions), dueAfter, writtenAfter, s.hastenSlice)
			if more = len(found) == s.hastenSlice; err != nil {
				return err
			}
			hastened, err = t.Exec(ctx, `UPDATE deliveries SET next_at = CASE WHEN next_at > ? THEN ? ELSE next_at END,
				due_at = CASE WHEN lease_owner = '' THEN CAST(? AS BIGINT) ELSE ? END, updated_at = ?`+s.written()+`
				WHERE `+waitingAmong(t, ` AND due_at > ? AND updated_at > ?`),
				at, at, at, store.Micros(now.Add(hastenLease)), at, t.Set(found), dueAfter, writtenAfter)
			return err
		})
		if err != nil {
			return err
		}
		all += hastened
	}
	if all == 0 { // somebody else has had them due, or they are due as they should be
		return nil
	}
	s.log.Warn("deliveries waited for a time far ahead: the clock was put back, and they are due now", "deliveries", all)
	heads := make([]head, len(subscriptions))
	for i, id := range subscriptions {
		heads[i] = head{id: id, due: at}
	}
	s.waiting.add(heads, now)
	return nil
}

// firstOf finds when the first waiting delivery of each subscription is due. On
// PostgreSQL it reads the queue from where nothing can be due before.
func (s *Store) firstOf(ctx context.Context, q db.Querier, from []head) ([]first, error) {
	ids, dues := columns(from)
	if !s.db.Postgres() {
		return db.All(ctx, q, scanFirst, `SELECT id, due_at FROM (
			SELECT value AS id, (SELECT min(due_at) FROM deliveries WHERE state = 'pending' AND subscription_id = value) AS due_at
			FROM json_each(?)) h WHERE due_at IS NOT NULL`, s.db.Set(ids))
	}
	return db.All(ctx, q, scanFirst, `SELECT id, due_at FROM (
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

// look takes in what was written since the last one. t has not written yet.
func (s *Store) look(ctx context.Context, t *db.Tx) error {
	if before, known := s.waiting.lastLook(); known {
		v, err := readView(ctx, t, news, before.sees, before.sees, before.sees)
		if err != nil {
			return err
		}
		if s.waiting.addLook(before, v, s.db.Now()) {
			return nil
		}
	}
	v, err := readView(ctx, t, seen+`SELECT NULL::text, NULL::bigint WHERE false) news ON true`, nothingSeen)
	if err == nil {
		s.waiting.begin(v)
	}
	return err
}

// nothingSeen is a snapshot that sees nothing.
const nothingSeen = "1:1:"

func readView(ctx context.Context, t *db.Tx, query string, args ...any) (v view, err error) {
	err = db.Each(ctx, t, func(row db.Row) error {
		var id *string
		var due *int64
		err := row.Scan(&v.server, &v.sees, &v.behind, &id, &due)
		if err == nil && id != nil {
			v.heads = append(v.heads, head{id: *id, due: *due})
		}
		return err
	}, query, args...)
	return v, err
}
