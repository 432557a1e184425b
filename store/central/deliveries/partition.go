package deliveries

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"partneredge/store/central/db"
)

// partition is a stretch of time of the log on PostgreSQL: one table of the attempts of
// the deliveries that were made in it, and one of the events. Both identifiers begin
// with the same time, so one pair of bounds serves both.
type partition struct {
	name  string // of its tables, after "attempts_" and "events_"
	from  string // the first identifier, without its prefix; "": from the beginning
	until string // the identifier that the next one begins at
}

const (
	deliveryPrefix = "dlv_"
	eventPrefix    = "evt_"
)

// tables lists the tables that have partitions, in the order in which all lock them, with
// the identifier that each goes by.
var tables = [...]struct{ name, id, prefix string }{
	{"attempts", "delivery_id", deliveryPrefix},
	{"events", "id", eventPrefix},
}

// pruneLock numbers the advisory lock of whoever adds or removes partitions, or removes
// rows by their age, so that none of these sees another half done.
const pruneLock = 0x65646772 // "edgr"

func lockPruning(ctx context.Context, t *db.Tx) error {
	if !t.Postgres() {
		return nil
	}
	_, err := t.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", pruneLock))
	return err
}

// layout lists the partitions of a log in order, without the default ones. It is empty
// on SQLite.
type layout []partition

func readLayout(ctx context.Context, t *db.Tx) (layout, error) {
	if !t.Postgres() {
		return nil, nil
	}
	all, err := db.All(ctx, t, func(row db.Row) (p partition, err error) {
		var table, bound string
		if err = row.Scan(&table, &bound); err != nil {
			return p, err
		}
		p.name = strings.TrimPrefix(table, "attempts_")
		p.from, p.until, err = bounds(bound)
		return p, err
	}, `SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'attempts'::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'`)
	slices.SortFunc(all, func(a, b partition) int { return cmp.Compare(a.until, b.until) })
	return all, err
}

// bounds reads a bound as PostgreSQL writes it: FOR VALUES FROM ('dlv_01') TO ('dlv_02'),
// or FROM (MINVALUE).
func bounds(text string) (from, until string, err error) {
	words := strings.Split(text, "'")
	switch {
	case len(words) == 5:
		from, until = words[1], words[3]
	case len(words) == 3 && strings.Contains(text, "FROM (MINVALUE)"):
		until = words[1]
	default:
		return "", "", fmt.Errorf("read bounds of a partition: %q", text)
	}
	return strings.TrimPrefix(from, deliveryPrefix), strings.TrimPrefix(until, deliveryPrefix), nil
}

// holds reports whether the rows of a delivery or an event go with their partition, and
// not by themselves. The first partition holds all of the time before there were others,
// and default ones hold what has no other, so these lose their rows one by one.
func (l layout) holds(id string) bool {
	i, _ := slices.BinarySearchFunc(l, id, func(p partition, id string) int {
		if p.until <= id {
			return -1
		}
		return 1
	})
	return i < len(l) && l[i].from != "" && l[i].from <= id
}

// gap returns the first stretch of identifiers between two whose rows go by themselves;
// empty when from is not less than until.
func (l layout) gap(after, before string) (from, until string) {
	for _, p := range l {
		if p.from == "" || p.until <= after {
			continue
		}
		if after < p.from {
			return after, min(p.from, before)
		}
		after = p.until
	}
	return after, before
}

// timeLength counts the characters of an identifier that hold the time it was made at.
const timeLength = 10

// firstAt returns what sorts before all identifiers made at a time or later, without
// their prefix.
func firstAt(t time.Time) string { return strings.TrimPrefix(db.FirstID("", t), "_")[:timeLength] }
