package central

import (
	"context"
	"encoding/json"
	"time"

	"partneredge/store"
)

// EventsSince lists events of an account, the oldest first: those made at a
// time or later, and after the event whose id is given ("": from the first). The
// events of all accounts since then are looked through, so since should be
// recent. An event that is being committed may still appear before others that
// were there already.
func (db *DB) EventsSince(ctx context.Context, accountID string, since time.Time, after string, limit int) ([]store.Event, error) {
	const tried = "list events"
	if err := mustBeText("account", accountID); err != nil {
		return nil, db.fail(tried, err)
	}
	if limit <= 0 || since.IsZero() || checkTimes(since) != nil || !validText(after) {
		return nil, db.fail(tried, invalid("time, place or limit"))
	}
	rows, err := db.query(ctx, `SELECT id, account_id, type, created_at, silenced, body FROM events
		WHERE id >= ? AND id > ? AND account_id = ? ORDER BY id LIMIT ?`, firstID("evt", since), after, accountID, limit)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	events := []store.Event{}
	for rows.Next() {
		var e store.Event
		var body string
		if err := rows.Scan(&e.ID, &e.AccountID, &e.Type, asTime(&e.CreatedAt), &e.Silenced, &body); err != nil {
			return nil, db.fail(tried, err)
		}
		e.Body = json.RawMessage(body)
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, db.fail(tried, err)
	}
	if len(events) == 0 {
		return events, db.fail(tried, db.mustHaveAccount(ctx, accountID))
	}
	return events, nil
}
