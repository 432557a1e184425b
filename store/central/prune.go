package central

import (
	"cmp"
	"context"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
	"partneredge/store/central/quarantine"
	"partneredge/store/valid"
)

// Aging is a kind of records that can go by their age. Their ids sort by the time
// they came in, unless since is set.
type Aging struct {
	table, prefix string
	view          store.ChangeKind // what nodes keep of them; "": nothing
	// since is the indexed column of the time from which they age, where ids do not have it:
	// leads may have any id, and most have the time of a node's clock.
	since string
	only  string // the condition of those that may go; "": all may
}

// What PruneRecords removes.
var (
	AgingFirings  = Aging{table: "firings", prefix: "fir", view: store.ChangeFirings}
	AgingInsights = Aging{table: "insights", prefix: "ins", view: store.ChangeInsights}
	AgingContacts = Aging{table: "contacts", prefix: "con"}
	AgingLeads    = Aging{table: "leads", since: "received_at"}
	AgingAudit    = Aging{table: "audit", prefix: "aud"}
	// AgingSubscriptions are those that were revoked, and have no delivery left, by which an
	// account's are found.
	AgingSubscriptions = Aging{table: "subscriptions", since: "revoked_at",
		only: `revoked_at <> 0 AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.subscription_id = subscriptions.id)`}
)

// AgingCursor is the place that a round of PruneRecords has come to. Its zero value begins a
// round.
type AgingCursor struct {
	id    string
	at, n int64 // instead of id, of a kind with a time of its own
}

// PruneRecords removes up to limit records that came in, or were revoked, before a time and
// returns how many, the oldest first; call it until that is 0. Nodes that keep some of them learn
// of it. What it has passed over it does not look at again in the same round, nor at the
// dead entries of what it removed.
func (d *DB) PruneRecords(ctx context.Context, k Aging, before time.Time, limit int, cursor *AgingCursor) (removed int, err error) {
	op := "prune " + k.table
	if k.table == "" || limit <= 0 || before.IsZero() || valid.Times(before) != nil {
		return 0, db.Fail(op, valid.Errorf("kind, time or limit is not set"))
	}
	var next AgingCursor
	var old []string
	if k.view == "" {
		removed, err = d.prune(ctx, op, before, limit, func(ctx context.Context, t *db.Tx, before time.Time, _ int) (gone int, err error) {
			if old, next, err = k.oldest(ctx, t, before, limit, *cursor); err != nil {
				return 0, err
			}
			return pruneUnseen(ctx, t, k, before, old)
		})
	} else {
		err = d.write(ctx, op, nil, func(ctx context.Context, t *tx) (err error) {
			if old, next, err = k.oldest(ctx, t.Tx, before, limit, *cursor); err == nil {
				removed, err = t.pruneSeen(ctx, k, old)
			}
			return err
		})
	}
	if err == nil {
		*cursor = next
	}
	return removed, err
}

// oldest returns the ids of the oldest records before a time that are behind a cursor, and the
// place behind them.
func (k Aging) oldest(ctx context.Context, t *db.Tx, before time.Time, limit int, cursor AgingCursor) (old []string, next AgingCursor, err error) {
	next = cursor
	if k.since != "" {
		err = db.Each(ctx, t, func(row db.Row) error {
			var id string
			err := row.Scan(&id, &next.at, &next.n)
			old = append(old, id)
			return err
		}, `SELECT id, `+k.since+`, n FROM `+k.table+` WHERE (`+k.since+`, n) > (?, ?) AND `+k.since+` < ? AND `+cmp.Or(k.only, "TRUE")+`
			ORDER BY `+k.since+`, n LIMIT ?`, cursor.at, cursor.n, store.Micros(before), limit)
		return old, next, err
	}
	old, err = t.Strings(ctx, `SELECT id FROM `+k.table+` WHERE id > ? AND id < ? ORDER BY id LIMIT ?`,
		max(k.prefix, cursor.id), db.FirstID(k.prefix, before), limit)
	if len(old) > 0 {
		next.id = old[len(old)-1]
	}
	return old, next, err
}

// pruneUnseen removes old records of a kind that no node keeps, which came in before a time.
func pruneUnseen(ctx context.Context, t *db.Tx, k Aging, before time.Time, old []string) (int, error) {
	if k.table == AgingAudit.table { // which lets nothing else go
		if _, err := t.Exec(ctx, `UPDATE audit_since SET at = ? WHERE at < ?`, store.Micros(before), store.Micros(before)); err != nil {
			return 0, err
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	gone, err := t.Exec(ctx, `DELETE FROM `+k.table+` WHERE `+t.In("id"), t.Set(old))
	return int(gone), err
}

// pruneSeen removes old records of a kind that nodes keep.
func (t *tx) pruneSeen(ctx context.Context, k Aging, old []string) (removed int, err error) {
	if len(old) == 0 {
		return 0, nil
	}
	accounts, err := t.Strings(ctx, `DELETE FROM `+k.table+` WHERE `+t.In("id")+` RETURNING account_id`, t.Set(old))
	if err != nil || len(accounts) == 0 {
		return 0, err
	}
	removed = len(accounts)
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	for _, account := range accounts {
		t.changed(k.view, account, false)
	}
	if k.view != store.ChangeInsights {
		return removed, nil
	}
	// Samples are for accounts that never had an insight.
	_, err = t.Exec(ctx, `UPDATE accounts SET coached = 1 WHERE coached = 0 AND `+t.In("id"), t.Set(accounts))
	return removed, err
}

// PruneAnswers removes up to limit answers to idempotency keys that were given before a
// time and returns how many; call it until that is 0.
func (d *DB) PruneAnswers(ctx context.Context, before time.Time, limit int, cursor *idempotency.PruneCursor) (removed int, err error) {
	var next idempotency.PruneCursor
	removed, err = d.prune(ctx, "prune answers to idempotency keys", before, limit, func(ctx context.Context, t *db.Tx, before time.Time, limit int) (n int, err error) {
		n, next, err = idempotency.Prune(ctx, t, before, limit, *cursor)
		return n, err
	})
	if err == nil {
		*cursor = next
	}
	return removed, err
}

// DiscardOldLeads discards up to limit leads that have waited in the quarantine since before
// a time and returns how many; call it until that is 0.
func (d *DB) DiscardOldLeads(ctx context.Context, before time.Time, limit int) (discarded int, err error) {
	return d.prune(ctx, "discard old leads of the quarantine", before, limit, quarantine.DiscardOld)
}

// ForgetSettledLeads removes up to limit leads of the quarantine that were released or
// discarded before a time and returns how many; call it until that is 0.
func (d *DB) ForgetSettledLeads(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	return d.prune(ctx, "forget settled leads of the quarantine", before, limit, quarantine.Forget)
}

// prune calls fn in a transaction that changes nothing that nodes keep.
func (d *DB) prune(ctx context.Context, op string, before time.Time, limit int,
	fn func(ctx context.Context, t *db.Tx, before time.Time, limit int) (int, error)) (removed int, err error) {
	if limit <= 0 || before.IsZero() || valid.Times(before) != nil {
		return 0, db.Fail(op, valid.Errorf("time or limit is not set"))
	}
	err = d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		removed, err = fn(ctx, t, before, limit)
		return err
	})
	return removed, db.Fail(op, err)
}

// RetentionRound holds the time of the last round of retention, zero before the first, and
// whether the clock is in doubt since.
type RetentionRound struct {
	At      time.Time
	DoubtAt time.Time     // the clock when it was last found ahead; zero: it is not
	Stood   time.Duration // for which origins have run with it since
}

// RetentionRound returns the last round of retention.
func (d *DB) RetentionRound(ctx context.Context) (r RetentionRound, err error) {
	var stood int64
	err = d.db.QueryRow(ctx, `SELECT at, doubt_at, stood FROM retention_round`).Scan(db.Time(&r.At), db.Time(&r.DoubtAt), &stood)
	r.Stood = time.Duration(stood) * time.Microsecond
	return r, db.Fail("read the last round of retention", err)
}

// NoteRetentionRound replaces the last round of retention.
func (d *DB) NoteRetentionRound(ctx context.Context, r RetentionRound) error {
	return d.write(ctx, "note a round of retention", valid.Times(r.At, r.DoubtAt), func(ctx context.Context, t *tx) error {
		_, err := t.Exec(ctx, `UPDATE retention_round SET at = ?, doubt_at = ?, stood = ?`,
			store.Micros(r.At), store.Micros(r.DoubtAt), r.Stood.Microseconds())
		return err
	})
}
