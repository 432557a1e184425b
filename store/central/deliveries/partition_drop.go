package deliveries

import (
	"context"
	"fmt"
	"time"

	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const (
	// movedMost bounds the deliveries whose rows move out of a partition before it is
	// dropped, while all who use the log wait.
	movedMost = 1000
	// partitionLocks bounds the time that a change of the partitions waits for those who use the
	// log, while others wait behind it.
	partitionLocks = 500 * time.Millisecond
)

// DropPartition drops the oldest partition of the log that ended before a time and
// reports whether there was one. Deliveries that are left of that time (they wait, or
// were queued again) keep their events and attempts, which move to the default
// partitions; of more than 1000, the partition stays. ErrUnavailable: somebody used the
// log for longer than it could wait, a pg_dump perhaps.
func (s *Store) DropPartition(ctx context.Context, before time.Time) (dropped bool, err error) {
	const op = "drop a partition of the log"
	if before.IsZero() || valid.Times(before) != nil {
		return false, db.Fail(op, valid.Errorf("time is not set"))
	}
	if !s.db.Postgres() {
		return false, nil
	}
	var gone partition
	err = s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		gone = partition{}
		if err := lockPruning(ctx, t); err != nil {
			return err
		}
		all, err := readLayout(ctx, t)
		if err != nil {
			return err
		}
		for _, p := range all {
			if p.until > firstAt(before) {
				return nil
			}
			kept, err := keptOf(ctx, t, p)
			if err != nil {
				return err
			}
			if len(kept) <= movedMost {
				gone = p
				return dropPartition(ctx, t, p, kept)
			}
		}
		return nil
	})
	if err != nil {
		return false, db.Fail(op, err)
	}
	if gone.name != "" {
		s.log.Info("dropped a partition of the log", "partition", gone.name)
	}
	return gone.name != "", nil
}

// kept is a delivery that is left of a partition's time.
type kept struct{ delivery, event string }

func keptOf(ctx context.Context, t *db.Tx, p partition) ([]kept, error) {
	return db.All(ctx, t, func(row db.Row) (k kept, err error) {
		err = row.Scan(&k.delivery, &k.event)
		return k, err
	}, `SELECT id, event_id FROM deliveries WHERE id >= ? AND id < ? LIMIT ?`,
		deliveryPrefix+p.from, deliveryPrefix+p.until, movedMost+1)
}

// dropPartition removes a partition but for the rows of deliveries that are kept. Of
// these there can be no more than were found: none of that time is made any more.
func dropPartition(ctx context.Context, t *db.Tx, p partition, left []kept) error {
	if err := t.LimitLocks(ctx, partitionLocks); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, `LOCK TABLE attempts, events IN ACCESS EXCLUSIVE MODE`); err != nil {
		return err
	}
	deliveries, events := make([]string, len(left)), make([]string, len(left))
	for i, k := range left {
		deliveries[i], events[i] = k.delivery, k.event
	}
	ids := map[string][]string{deliveryPrefix: deliveries, eventPrefix: events}
	for _, table := range tables {
		own := table.name + "_" + p.name
		if _, err := t.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s`, table.name, own)); err != nil {
			return err
		}
		if len(left) > 0 {
			if _, err := t.Exec(ctx, fmt.Sprintf(`INSERT INTO %s SELECT * FROM %s WHERE %s`,
				table.name, own, t.In(table.id)), t.Set(ids[table.prefix])); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, `DROP TABLE `+own); err != nil {
			return err
		}
	}
	return nil
}
