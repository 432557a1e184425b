package central

import (
	"context"
	"fmt"
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
		CreatedAt: now,
		Silenced:  mode != store.ModeLive,
	}
	var err error
	e.Body, err = event.Body(event.Head{ID: e.ID, Type: kind, AccountID: account, CreatedAt: now}, data)
	if err != nil {
		return nil, err
	}
	t.events = append(t.events, e)
	if e.Silenced {
		return e, nil
	}
	return e, t.deliveries.FanOut(ctx, e)
}

var insertEvents = db.Insert("events", "id, account_id, type, created_at, silenced, body", func(e *store.Event) []any {
	return []any{e.ID, e.AccountID, e.Type, db.Micros(e.CreatedAt), db.Bit(e.Silenced), string(e.Body)}
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

// eventsSince reads a part of an account's events by the index events_of_account.
var eventsSince = `SELECT ` + eventTable.Columns + ` FROM events WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`

// EventsSince lists up to limit events of an account, the oldest first: those made
// at a time or later, and after the event whose id is given ("": from the first).
// It reads no event of another account. An event that is being committed may
// still appear before others that were there already.
func (d *DB) EventsSince(ctx context.Context, accountID string, since time.Time, after string, limit int) ([]store.Event, error) {
	const tried = "list events"
	if err := valid.Reference("account", accountID); err != nil {
		return nil, db.Fail(tried, err)
	}
	if limit <= 0 || since.IsZero() || valid.Times(since) != nil || !valid.Text(after) {
		return nil, db.Fail(tried, valid.Errorf("time, place or limit"))
	}
	events, err := db.All(ctx, d.db, scanEvent, eventsSince, accountID, max(after, db.FirstID("evt", since)), limit)
	if err == nil && len(events) == 0 {
		err = d.mustHaveAccount(ctx, accountID)
	}
	return events, db.Fail(tried, err)
}
