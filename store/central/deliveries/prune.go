package deliveries

import (
	"context"
	"slices"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// PruneCursor is the place that a round of PruneDeliveries has come to. Its zero value begins
// a round.
type PruneCursor struct{ delivery, event string }

// PruneDeliveries removes up to limit deliveries that ended before a time, with
// their attempts, and up to limit events from before it that have no delivery
// left. It returns how many rows of deliveries and events went; call it until that is
// 0. What it has passed over it does not look at again in the same round, nor at
// the dead entries of what it removed. Attempts and events that lie in a partition
// stay until DropPartition.
func (s *Store) PruneDeliveries(ctx context.Context, before time.Time, limit int, cursor *PruneCursor) (removed int, err error) {
	const op = "prune deliveries"
	if limit <= 0 || before.IsZero() || valid.Times(before) != nil {
		return 0, db.Fail(op, valid.Errorf("time or limit is not set"))
	}
	var next PruneCursor
	err = s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		next = *cursor
		if err := lockPruning(ctx, t); err != nil {
			return err
		}
		log, err := readLayout(ctx, t)
		if err != nil {
			return err
		}
		ended, err := log.pruneEnded(ctx, t, before, limit, &next.delivery)
		if err != nil {
			return err
		}
		until := db.FirstID("evt", before)
		if ended == limit { // the deliveries of younger events have still to go
			until = eventsBefore(next.delivery)
		}
		events, err := log.pruneEvents(ctx, t, until, limit, &next.event)
		removed = ended + events
		return err
	})
	if err != nil {
		return 0, db.Fail(op, err)
	}
	*cursor = next
	return removed, nil
}

// eventsBefore returns what sorts before every event of the millisecond in which a
// delivery was made, which is that of its event.
func eventsBefore(delivery string) string {
	made := strings.TrimPrefix(delivery, "dlv_")
	return "evt_" + made[:min(len(made), timeLength)]
}

// deliveriesOf returns what sorts before and after the deliveries of an event, which are made
// in its millisecond.
func deliveriesOf(event string) (from, until string) {
	made := strings.TrimPrefix(event, eventPrefix)
	from = deliveryPrefix + made[:min(len(made), timeLength)]
	return from, from + "~"
}

func (l layout) pruneEnded(ctx context.Context, t *db.Tx, before time.Time, limit int, cursor *string) (removed int, err error) {
	old, err := t.Strings(ctx, `SELECT id FROM deliveries
		WHERE id > ? AND id < ? AND updated_at < ? AND state <> 'pending' ORDER BY id LIMIT ?`,
		*cursor, db.FirstID("dlv", before), store.Micros(before), limit)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	*cursor = old[len(old)-1]
	alone := slices.DeleteFunc(slices.Clone(old), func(id string) bool { return l.holds(strings.TrimPrefix(id, deliveryPrefix)) })
	if len(alone) > 0 {
		if _, err := t.Exec(ctx, `DELETE FROM attempts WHERE `+t.In("delivery_id"), t.Set(alone)); err != nil {
			return 0, err
		}
	}
	gone, err := t.Exec(ctx, `DELETE FROM deliveries WHERE state <> 'pending' AND `+t.In("id"), t.Set(old))
	return int(gone), err
}

// RemoveOrphans removes the attempts that have no delivery any more of the milliseconds in
// which some events were made. PruneDeliveries leaves them to their partition.
func RemoveOrphans(ctx context.Context, t *db.Tx, events []string) error {
	if !t.Postgres() {
		return nil
	}
	found, err := t.Strings(ctx, orphans, t.Set(events))
	if err != nil || len(found) == 0 {
		return err
	}
	_, err = t.Exec(ctx, `DELETE FROM attempts WHERE `+t.In("delivery_id"), t.Set(found))
	return err
}

// orphans looks for attempts as deliveriesOf says. It is written so that no plan, though made
// while there are few, reads all attempts or all deliveries.
const orphans = `SELECT o.delivery_id FROM unnest(?::text[]) e(id), LATERAL (SELECT a.delivery_id FROM attempts a
		WHERE a.delivery_id >= 'dlv_' || substr(e.id, 5, 10) AND a.delivery_id < 'dlv_' || substr(e.id, 5, 10) || '~'
			AND (SELECT 1 FROM deliveries d WHERE d.id = a.delivery_id) IS NULL OFFSET 0) o`

// pruneEvents removes events from the next stretch of time that has some to remove.
func (l layout) pruneEvents(ctx context.Context, t *db.Tx, until string, limit int, cursor *string) (int, error) {
	for {
		from, to := l.gap(strings.TrimPrefix(*cursor, eventPrefix), strings.TrimPrefix(until, eventPrefix))
		if from >= to {
			return 0, nil
		}
		next, removed, err := pruneEventsOf(ctx, t, eventPrefix+from, eventPrefix+to, limit)
		if err != nil {
			return removed, err
		}
		if *cursor = next; removed > 0 {
			return removed, nil
		}
	}
}

// eventsAlone finds events between two identifiers that no delivery is left of. Deliveries
// are looked for as deliveriesOf says: an account may have had any number of subscriptions.
const eventsAlone = `SELECT e.id FROM events e WHERE e.id > ? AND e.id < ? AND NOT EXISTS (
		SELECT 1 FROM deliveries d WHERE d.id >= 'dlv_' || substr(e.id, 5, 10)
			AND d.id < 'dlv_' || substr(e.id, 5, 10) || '~' AND d.event_id = e.id)
	ORDER BY e.id LIMIT ?`

// pruneEventsOf removes the oldest events between two identifiers. cursor is the identifier
// from which the next ones are looked for.
func pruneEventsOf(ctx context.Context, t *db.Tx, from, until string, limit int) (cursor string, removed int, err error) {
	old, err := t.Strings(ctx, eventsAlone, from, until, limit)
	if err != nil {
		return "", 0, err
	}
	cursor = until // no other event before it has lost its deliveries
	if len(old) == limit {
		cursor = old[limit-1]
	}
	if len(old) == 0 {
		return cursor, 0, nil
	}
	gone, err := t.Exec(ctx, `DELETE FROM events WHERE `+t.In("id"), t.Set(old))
	return cursor, int(gone), err
}
