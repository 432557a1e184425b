package central

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
	"partneredge/wasm/event"
)

// emit makes the event of a write to account, which the transaction holds, and
// one delivery for every subscription that is to have it. They are written when
// the transaction ends.
func (t *tx) emit(ctx context.Context, account, kind string, data any) (*store.Event, error) {
	mode, held := t.modes[account]
	if !held {
		return nil, fmt.Errorf("%w: account %s", store.ErrNotFound, account)
	}
	now := t.Now()
	e := &store.Event{
		ID:        store.NewID("evt", now),
		AccountID: account,
		Type:      kind,
		CreatedAt: t.eventTime(account, now),
		Silenced:  mode != store.ModeLive,
	}
	var err error
	e.Body, err = event.Body(event.Head{ID: e.ID, Type: kind, AccountID: account, CreatedAt: e.CreatedAt}, data)
	if err != nil {
		return nil, err
	}
	t.events = append(t.events, e)
	if e.Silenced {
		return e, nil
	}
	return e, t.deliveries.FanOut(ctx, e, now)
}

// eventTime returns when an event of account is made: now, or a microsecond after the
// account's last event where the clock is not past it. Partners order events by it.
func (t *tx) eventTime(account string, now time.Time) time.Time {
	at := max(store.Micros(now), t.eventAt[account]+1)
	t.eventAt[account] = at
	return store.TimeOf(at)
}

// writeEvents writes the events of the transaction, and when each account had its last.
func (t *tx) writeEvents(ctx context.Context) error {
	if err := insertEvents.Run(ctx, t.Tx, t.events); err != nil {
		return err
	}
	last := make(map[string]*store.Event)
	for _, e := range t.events {
		last[e.AccountID] = e
	}
	return updateEventAt.Run(ctx, t.Tx, slices.Collect(maps.Values(last)))
}

var updateEventAt = db.Bulk[*store.Event]{
	Tried:     "write times of last events",
	Columns:   "id, at",
	Row:       func(e *store.Event) []any { return []any{e.AccountID, store.Micros(e.CreatedAt)} },
	Statement: `UPDATE accounts SET event_at = v.at FROM v WHERE accounts.id = v.id`,
}

var insertEvents = db.Insert("events", "id, account_id, type, created_at, silenced, body", func(e *store.Event) []any {
	return []any{e.ID, e.AccountID, e.Type, store.Micros(e.CreatedAt), db.Bit(e.Silenced), string(e.Body)}
})

var eventTable = db.Table[store.Event]{
	Noun: "event", From: "events", ID: "id", Columns: `id, account_id, type, created_at, silenced, body`, Scan: scanEvent,
}

func scanEvent(row db.Row) (e store.Event, err error) {
	err = row.Scan(&e.ID, &e.AccountID, &e.Type, db.Time(&e.CreatedAt), &e.Silenced, (*[]byte)(&e.Body))
	return e, err
}

// Event reads one event.
func (d *DB) Event(ctx context.Context, id string) (store.Event, error) {
	return eventTable.Read(ctx, d.db, id)
}

// EventsAfter lists up to limit events of an account, in the order in which they came in
// whatever the clock said, beginning behind a position: 0, or the one that it returns, which
// is that of the last. Nothing comes in before a position that was returned. It reads no event
// of another account.
func (d *DB) EventsAfter(ctx context.Context, accountID string, position int64, limit int) (events []store.Event, last int64, err error) {
	const op = "list events"
	if err := valid.Reference("account", accountID); err != nil {
		return nil, position, db.Fail(op, err)
	}
	if limit <= 0 || position < 0 {
		return nil, position, db.Fail(op, valid.Errorf("position or limit"))
	}
	last = position
	events, err = db.All(ctx, d.db, func(row db.Row) (store.Event, error) { return scanEvent(db.Leading(row, &last)) },
		eventsAfter, accountID, position, limit)
	if err == nil && len(events) == 0 {
		err = d.mustHaveAccount(ctx, accountID)
	}
	return events, last, db.Fail(op, err)
}

// eventsAfter reads a part of an account's events by the index events_in_order, of SQLite
// events_of_account.
var eventsAfter = `SELECT n, ` + eventTable.Columns + ` FROM events WHERE account_id = ? AND n > ? ORDER BY n LIMIT ?`

// EventPosition returns the position of an event of an account.
func (d *DB) EventPosition(ctx context.Context, accountID, id string) (position int64, err error) {
	err = valid.Reference("event", id)
	if err == nil { // those that an earlier program wrote have none
		err = d.db.QueryRow(ctx, `SELECT coalesce(n, 0) FROM events WHERE account_id = ? AND id = ?`, accountID, id).Scan(&position)
	}
	return position, db.Fail("find event", err)
}

// NewestEventPosition returns the position of the event of an account that came in last; 0 where
// there is none.
func (d *DB) NewestEventPosition(ctx context.Context, accountID string) (position int64, err error) {
	err = d.db.QueryRow(ctx, `SELECT coalesce((`+newestPosition+`), 0)`, accountID).Scan(&position)
	return position, db.Fail("find event", err)
}

const newestPosition = `SELECT n FROM events WHERE account_id = ? AND n > 0 ORDER BY n DESC LIMIT 1`

// EventPositionBefore returns a position before all events of an account that were made at a time
// or later: of others too where the clock was put back meanwhile. Where there are none, it
// is that of NewestEventPosition.
func (d *DB) EventPositionBefore(ctx context.Context, accountID string, at time.Time) (position int64, err error) {
	err = valid.Times(at)
	if err == nil {
		err = d.db.QueryRow(ctx, d.eventPositionBefore(), accountID, db.FirstID("evt", at), accountID).Scan(&position)
	}
	return position, db.Fail("find event", err)
}

// eventPositionBefore reads what was made since a time, and not all that an account has: the
// expressions keep PostgreSQL from events_in_order, and SQLite from events_of_account.
func (d *DB) eventPositionBefore() string {
	account := "+account_id"
	if d.db.Postgres() {
		account = "account_id"
	}
	return `SELECT coalesce((SELECT min(n + 0) - 1 FROM events WHERE ` + account + ` = ? AND id >= ?), (` + newestPosition + `), 0)`
}
