package deliveries

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partneredge/store/central/db"
	"partneredge/wasm/typeid"
)

// partitionsAhead is the number of widths of time that the partitions reach beyond now.
const partitionsAhead = 3

// PartitionWidth returns how long a partition of a log is that is kept for a time: about
// a thirtieth of it, since so much more is kept until the partition's last row may go.
// keep 0 or less is for good.
func PartitionWidth(keep time.Duration) time.Duration {
	const least, most = time.Hour, 30 * 24 * time.Hour
	if keep <= 0 {
		return most
	}
	return min(max((keep/30).Truncate(time.Hour), least), most)
}

// MakePartitions makes the partitions of the log for the time to come. On SQLite it does
// nothing. Any number of processes may call it. While none does, the default
// partitions take what comes in.
func (s *Store) MakePartitions(ctx context.Context, width time.Duration) error {
	if !s.db.Postgres() {
		return nil
	}
	for {
		var made partition
		err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			if err := lockPruning(ctx, t); err != nil {
				return err
			}
			all, err := readLayout(ctx, t)
			if err != nil {
				return err
			}
			now := t.Now()
			rest, err := latestOfRest(ctx, t, farAhead(now, width))
			if err != nil {
				return err
			}
			if made, err = all.next(now, rest, width); err != nil || made.name == "" {
				return err
			}
			return createPartition(ctx, t, made)
		})
		if err != nil || made.name == "" {
			return db.Fail("make partitions of the log", err)
		}
		s.log.Info("made a partition of the log", "partition", made.name)
	}
}

// farAhead returns what no partition reaches that is to be made now. What lies beyond was made
// by a clock that was wrong, and is as nothing until its time comes near.
func farAhead(now time.Time, width time.Duration) string {
	return firstAt(now.Add((partitionsAhead + 1) * width))
}

// next returns the partition to make, the zero one when they reach far enough. rest is
// the latest identifier in the default partitions before farAhead.
func (l layout) next(now time.Time, rest string, width time.Duration) (p partition, err error) {
	last := ""
	for _, p := range l {
		if p.from < farAhead(now, width) {
			last = p.until
		}
	}
	if last >= firstAt(now.Add(partitionsAhead*width)) {
		return p, nil
	}
	if p.from = max(last, firstAt(now.Truncate(width))); rest >= p.from {
		// Begin where nothing is yet: a default partition must have no row of another.
		p.from = max(rest[:min(len(rest), timeLength)]+"~", firstAt(now.Truncate(width).Add(width)))
	}
	first := p.from[:min(len(p.from), timeLength)]
	milli, ok := typeid.UnixMilli("_" + first + strings.Repeat("0", 26-timeLength))
	if !ok {
		return p, fmt.Errorf("the log ends at %q, which is no time", p.from)
	}
	from := time.UnixMilli(milli).UTC()
	p.until = firstAt(from.Truncate(width).Add(width))
	p.name = from.Format("20060102t150405")
	return p, nil
}

// latestOfRest returns the latest identifier in the default partitions before another, all
// without their prefixes; "" when there is none.
func latestOfRest(ctx context.Context, t *db.Tx, before string) (id string, err error) {
	err = t.Get(ctx, `SELECT greatest((SELECT substr(max(delivery_id), 5) FROM attempts_rest WHERE delivery_id < ?),
		(SELECT substr(max(id), 5) FROM events_rest WHERE id < ?), '')`, []any{deliveryPrefix + before, eventPrefix + before}, &id)
	return id, err
}

// createPartition makes the tables of a partition. They are attached once they are
// there, since that, unlike making them in their place, holds up nobody who writes.
func createPartition(ctx context.Context, t *db.Tx, p partition) error {
	if err := t.LimitLocks(ctx, partitionLocks); err != nil {
		return err
	}
	for _, table := range tables {
		own := table.name + "_" + p.name
		if _, err := t.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s)`, own, table.name)); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`,
			table.name, own, table.prefix+p.from, table.prefix+p.until)); err != nil {
			return err
		}
	}
	return nil
}
