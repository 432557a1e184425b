package central

import (
	"context"
	"database/sql"
	"errors"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/quarantine"
)

// exportPage is the number of records that an export reads at once.
const exportPage = 1000

// LoggedDelivery is a delivery with all its attempts.
type LoggedDelivery struct {
	store.Delivery
	Attempts []store.Attempt
}

// ExportAccount notes the export in the audit log, then calls yield with every record
// that is kept of an account: with the store.Account first, then with a store.Key,
// Subscription, Lead, QuarantinedLead, Contact, Insight, Firing, Deal, Goal, Event or
// a LoggedDelivery. An error of yield ends it, and is returned.
//
// It reads page by page, so that the account may be of any size and others go on
// writing. What comes in meanwhile may be there or not.
func (d *DB) ExportAccount(ctx context.Context, id string, yield func(record any) error) error {
	account, err := d.Account(ctx, id)
	if err != nil {
		return err
	}
	if err := d.Audit(ctx, "account.export", id, nil); err != nil {
		return err
	}
	if err := yield(account); err != nil {
		return err
	}
	for _, part := range []func() error{
		func() error { return eachOf(ctx, id, d.Keys, given[store.Key](yield)) },
		func() error { return eachOf(ctx, id, d.Subscriptions, given[store.Subscription](yield)) },
		func() error { return eachOf(ctx, id, d.Leads, given[store.Lead](yield)) },
		func() error { return d.exportQuarantine(ctx, id, yield) },
		func() error { return exportedContacts.export(ctx, d, id, yield) },
		func() error { return exportedInsights.export(ctx, d, id, yield) },
		func() error { return exportedFirings.export(ctx, d, id, yield) },
		func() error { return exportedDeals.export(ctx, d, id, yield) },
		func() error { return exportedGoals.export(ctx, d, id, yield) },
		func() error { return d.exportEvents(ctx, id, yield) },
		func() error {
			return eachOf(ctx, id, d.Subscriptions, func(s store.Subscription) error { return d.exportDeliveries(ctx, s.ID, yield) })
		},
	} {
		if err := part(); err != nil {
			return db.Fail("export account", err)
		}
	}
	return nil
}

// given returns yield as a function of one type of record.
func given[T any](yield func(any) error) func(T) error {
	return func(record T) error { return yield(record) }
}

var (
	contactTable = db.Table[store.Contact]{From: "contacts", Columns: `id, account_id, client_id, channel, occurred_at`, Scan: scanContact}
	dealTable    = db.Table[store.Deal]{From: "deals", Columns: `id, account_id, stage, changed_at`, Scan: scanDeal}
	goalTable    = db.Table[store.Goal]{From: "goals", Columns: `id, account_id, pace, changed_at`, Scan: scanGoal}
)

func scanContact(row db.Row) (c store.Contact, err error) {
	err = row.Scan(&c.ID, &c.AccountID, &c.ClientID, &c.Channel, db.Time(&c.OccurredAt))
	return c, err
}

func scanDeal(row db.Row) (v store.Deal, err error) {
	err = row.Scan(&v.ID, &v.AccountID, &v.Stage, db.Time(&v.ChangedAt))
	return v, err
}

func scanGoal(row db.Row) (g store.Goal, err error) {
	err = row.Scan(&g.ID, &g.AccountID, &g.Pace, db.Time(&g.ChangedAt))
	return g, err
}

// ordered is a table whose rows of an account an export reads in the order of a column. No
// two of these rows have the same value there, and an index finds them in that order: each
// page would else read all of them. Values sort behind the zero value of K.
type ordered[T, K any] struct {
	db.Table[T]
	by string // the column
}

var (
	exportedContacts   = ordered[store.Contact, string]{contactTable, "id"}
	exportedInsights   = ordered[store.Insight, int64]{insightTable, "created_at"}
	exportedFirings    = ordered[store.Firing, int64]{firingTable, "triggered_at"}
	exportedDeals      = ordered[store.Deal, string]{dealTable, "id"}
	exportedGoals      = ordered[store.Goal, string]{goalTable, "id"}
	exportedEvents     = ordered[store.Event, string]{eventTable, "id"}
	exportedEventsLite = ordered[store.Event, int64]{eventTable, "n"}
)

// exportEvents reads events by their ids, but those of SQLite, which has no index of these
// for one account, by their places; PostgreSQL has events without a place.
func (d *DB) exportEvents(ctx context.Context, account string, yield func(any) error) error {
	if d.db.Postgres() {
		return exportedEvents.export(ctx, d, account, yield)
	}
	return exportedEventsLite.export(ctx, d, account, yield)
}

// query reads a page behind a value of the column.
func (o ordered[T, K]) query() string {
	return `SELECT ` + o.by + `, ` + o.Columns + ` FROM ` + o.From + ` WHERE account_id = ? AND ` + o.by + ` > ? ORDER BY ` + o.by + ` LIMIT ?`
}

// export reads an account's rows page by page.
func (o ordered[T, K]) export(ctx context.Context, d *DB, account string, yield func(any) error) error {
	for last := *new(K); ; {
		page, err := db.All(ctx, d.db, func(row db.Row) (T, error) { return o.Scan(db.Leading(row, &last)) }, o.query(), account, last, exportPage)
		if err != nil {
			return err
		}
		for _, record := range page {
			if err := yield(record); err != nil {
				return err
			}
		}
		if len(page) < exportPage {
			return nil
		}
	}
}

func (d *DB) exportQuarantine(ctx context.Context, account string, yield func(any) error) error {
	ids, err := quarantine.OfAccount(ctx, d.db, account)
	if err != nil {
		return err
	}
	for _, id := range ids {
		q, err := quarantine.Read(ctx, d.db, id)
		switch {
		case errors.Is(err, sql.ErrNoRows): // gone meanwhile
			continue
		case err != nil:
			return err
		}
		if err := yield(q); err != nil {
			return err
		}
	}
	return nil
}

// exportDeliveries reads the log of a subscription, newest event first.
func (d *DB) exportDeliveries(ctx context.Context, subscription string, yield func(any) error) error {
	for page := (store.Page{Limit: 200}); ; {
		found, next, err := d.Deliveries(ctx, deliveries.Filter{SubscriptionID: subscription}, page)
		if err != nil {
			return err
		}
		attempts, err := d.AttemptsOf(ctx, found)
		if err != nil {
			return err
		}
		for _, delivery := range found {
			if err := yield(LoggedDelivery{delivery, attempts[delivery.ID]}); err != nil {
				return err
			}
		}
		if page.Cursor = next; next == "" {
			return nil
		}
	}
}
