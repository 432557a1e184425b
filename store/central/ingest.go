package central

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/valid"
)

// Writes of the sources of an account. Each write, its change, its event and the
// event's deliveries are one transaction. The event is nil where none was
// emitted, and Silenced where the account is not live.

// AddCoachingRun adds the insights of one run. Ids are made and creation is
// now where they are not set; a creation time that the account has already
// moves by microseconds. One event announces the newest. No insights: no event.
func (d *DB) AddCoachingRun(ctx context.Context, accountID string, insights []store.Insight) (added []store.Insight, event *store.Event, err error) {
	const tried = "add coaching run"
	if err := valid.Reference("account", accountID); err != nil {
		return nil, nil, db.Fail(tried, err)
	}
	now := d.db.Now()
	run := make([]store.Insight, len(insights))
	for i, in := range insights {
		if in.ID == "" {
			in.ID = store.NewID("ins", now)
		}
		in.AccountID = accountID
		in.CreatedAt = db.TimeOr(in.CreatedAt, now)
		if err := errors.Join(valid.IDs("insight id", in.ID), valid.Times(in.CreatedAt),
			valid.Texts("headline", in.Headline, "detail", in.Detail)); err != nil {
			return nil, nil, db.Fail(tried, err)
		}
		run[i] = in
	}
	err = d.change(ctx, accountID, func(ctx context.Context, t *tx) error {
		added, event = make([]store.Insight, len(run)), nil
		newest := 0
		for i, in := range run {
			var err error
			if in.CreatedAt, err = t.uniqueTime(ctx, series{"insights", "created_at", accountID}, in.CreatedAt); err != nil {
				return err
			}
			if _, err := t.Exec(ctx, `INSERT INTO insights (id, account_id, headline, detail, created_at) VALUES (?, ?, ?, ?, ?)`,
				in.ID, accountID, in.Headline, in.Detail, db.Micros(in.CreatedAt)); err != nil {
				return err
			}
			added[i] = in
			if in.CreatedAt.After(added[newest].CreatedAt) {
				newest = i
			}
		}
		if len(added) == 0 {
			return nil
		}
		t.changed(store.ChangeInsights, accountID, false)
		var err error
		event, err = t.emit(ctx, accountID, store.EventInsightCreated, insightCreated{
			InsightID: added[newest].ID,
			Headline:  added[newest].Headline,
			CreatedAt: iso(added[newest].CreatedAt),
		})
		return err
	})
	if err != nil {
		return nil, nil, db.Fail(tried, err)
	}
	return added, event, nil
}

// AddFiring adds a firing of a sentinel. The id is made and the time is now
// where they are not set; a time that the account has already moves by
// microseconds. Data must be a JSON object; none is {}.
func (d *DB) AddFiring(ctx context.Context, f store.Firing) (added store.Firing, event *store.Event, err error) {
	const tried = "add firing"
	if err := valid.Reference("account", f.AccountID); err != nil {
		return added, nil, db.Fail(tried, err)
	}
	now := d.db.Now()
	if f.ID == "" {
		f.ID = store.NewID("fir", now)
	}
	f.TriggeredAt = db.TimeOr(f.TriggeredAt, now)
	if f.Data, err = valid.Object("trigger data", f.Data); err != nil {
		return added, nil, db.Fail(tried, err)
	}
	if err := errors.Join(valid.IDs("firing id", f.ID), valid.Times(f.TriggeredAt),
		valid.Texts("sentinel name", f.Name, "action taken", f.Action)); err != nil {
		return added, nil, db.Fail(tried, err)
	}
	err = d.change(ctx, f.AccountID, func(ctx context.Context, t *tx) error {
		added = f
		var err error
		if added.TriggeredAt, err = t.uniqueTime(ctx, series{"firings", "triggered_at", f.AccountID}, f.TriggeredAt); err != nil {
			return err
		}
		t.firings = append(t.firings, added)
		t.changed(store.ChangeFirings, f.AccountID, false)
		event, err = t.emit(ctx, f.AccountID, store.EventSentinelFired, sentinelFired{
			FiringID:     f.ID,
			SentinelName: f.Name,
			TriggeredAt:  iso(added.TriggeredAt),
			ActionTaken:  f.Action,
		})
		return err
	})
	if err != nil {
		return store.Firing{}, nil, db.Fail(tried, err)
	}
	return added, event, nil
}

// AddContact adds an entry of the contact log. The id is made and the time is
// now where they are not set.
func (d *DB) AddContact(ctx context.Context, c store.Contact) (added store.Contact, event *store.Event, err error) {
	const tried = "add contact"
	if err := valid.Reference("account", c.AccountID); err != nil {
		return added, nil, db.Fail(tried, err)
	}
	now := d.db.Now()
	if c.ID == "" {
		c.ID = store.NewID("con", now)
	}
	c.OccurredAt = db.TimeOr(c.OccurredAt, now)
	if err := errors.Join(valid.IDs("contact id", c.ID, "client id", c.ClientID),
		valid.OneOf("channel", c.Channel, "phone", "email", "sms"), valid.Times(c.OccurredAt)); err != nil {
		return added, nil, db.Fail(tried, err)
	}
	err = d.change(ctx, c.AccountID, func(ctx context.Context, t *tx) error {
		if _, err := t.Exec(ctx, `INSERT INTO contacts (id, account_id, client_id, channel, occurred_at) VALUES (?, ?, ?, ?, ?)`,
			c.ID, c.AccountID, c.ClientID, c.Channel, db.Micros(c.OccurredAt)); err != nil {
			return err
		}
		var err error
		event, err = t.emit(ctx, c.AccountID, store.EventClientContacted, clientContacted{
			ContactID:  c.ID,
			ClientID:   c.ClientID,
			Channel:    c.Channel,
			OccurredAt: iso(c.OccurredAt),
		})
		return err
	})
	if err != nil {
		return store.Contact{}, nil, db.Fail(tried, err)
	}
	return c, event, nil
}

// Put is the result of setting a deal or a goal.
type Put[T any] struct {
	Record  T            // as it is kept
	Changed bool         // its value is not what it was; true for a new one
	Event   *store.Event // nil: none was emitted
}

// PutDeal sets the stage of a deal, whose id is the caller's. The time is now
// where it is not set; that of a stage that stays as it is stays too. Only a
// change from one stage to another emits an event.
func (d *DB) PutDeal(ctx context.Context, in store.Deal) (put Put[store.Deal], err error) {
	const tried = "put deal"
	if err := valid.Reference("account", in.AccountID); err != nil {
		return put, db.Fail(tried, err)
	}
	in.ChangedAt = db.TimeOr(in.ChangedAt, d.db.Now())
	if err := errors.Join(valid.IDs("deal id", in.ID, "stage", in.Stage), valid.Times(in.ChangedAt)); err != nil {
		return put, db.Fail(tried, err)
	}
	err = d.change(ctx, in.AccountID, func(ctx context.Context, t *tx) error {
		was, err := t.put(ctx, dealValues, value{in.AccountID, in.ID, in.Stage, in.ChangedAt})
		if err != nil {
			return err
		}
		put = Put[store.Deal]{Record: in, Changed: was.text != in.Stage}
		switch {
		case !put.Changed:
			put.Record.ChangedAt = was.at
		case was.known:
			put.Event, err = t.emit(ctx, in.AccountID, store.EventDealChanged, dealChanged{
				DealID:    in.ID,
				FromStage: was.text,
				ToStage:   in.Stage,
				ChangedAt: iso(in.ChangedAt),
			})
		}
		return err
	})
	if err != nil {
		return Put[store.Deal]{}, db.Fail(tried, err)
	}
	return put, nil
}

// PutGoal sets the pace of a goal, as PutDeal does the stage of a deal.
func (d *DB) PutGoal(ctx context.Context, in store.Goal) (put Put[store.Goal], err error) {
	const tried = "put goal"
	if err := valid.Reference("account", in.AccountID); err != nil {
		return put, db.Fail(tried, err)
	}
	in.ChangedAt = db.TimeOr(in.ChangedAt, d.db.Now())
	if err := errors.Join(valid.IDs("goal id", in.ID), valid.OneOf("pace", in.Pace, "on_pace", "behind", "ahead"),
		valid.Times(in.ChangedAt)); err != nil {
		return put, db.Fail(tried, err)
	}
	err = d.change(ctx, in.AccountID, func(ctx context.Context, t *tx) error {
		was, err := t.put(ctx, goalValues, value{in.AccountID, in.ID, in.Pace, in.ChangedAt})
		if err != nil {
			return err
		}
		put = Put[store.Goal]{Record: in, Changed: was.text != in.Pace}
		switch {
		case !put.Changed:
			put.Record.ChangedAt = was.at
		case was.known:
			put.Event, err = t.emit(ctx, in.AccountID, store.EventGoalChanged, goalChanged{
				GoalID:       in.ID,
				Pace:         in.Pace,
				PreviousPace: was.text,
				ChangedAt:    iso(in.ChangedAt),
			})
		}
		return err
	})
	if err != nil {
		return Put[store.Goal]{}, db.Fail(tried, err)
	}
	return put, nil
}

// values are the queries about one value of the records of a table.
type values struct{ read, insert, update string }

func valuesOf(table, column string) values {
	return values{
		read:   `SELECT ` + column + `, changed_at FROM ` + table + ` WHERE account_id = ? AND id = ?`,
		insert: `INSERT INTO ` + table + ` (account_id, id, ` + column + `, changed_at) VALUES (?, ?, ?, ?)`,
		update: `UPDATE ` + table + ` SET ` + column + ` = ?, changed_at = ? WHERE account_id = ? AND id = ?`,
	}
}

var (
	dealValues = valuesOf("deals", "stage")
	goalValues = valuesOf("goals", "pace")
)

// value of a deal or a goal, and since when.
type value struct {
	account, id, text string
	at                time.Time
}

// lastValue is the value that a deal or goal had; known is false for a new one.
type lastValue struct {
	known bool
	text  string
	at    time.Time
}

// put writes a value and returns the one before, which stays with its time when
// it is the same.
func (t *tx) put(ctx context.Context, q values, v value) (was lastValue, err error) {
	err = t.Get(ctx, q.read, []any{v.account, v.id}, &was.text, db.Time(&was.at))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = t.Exec(ctx, q.insert, v.account, v.id, v.text, db.Micros(v.at))
		return lastValue{}, err
	case err != nil:
		return lastValue{}, err
	}
	was.known = true
	if was.text != v.text {
		_, err = t.Exec(ctx, q.update, v.text, db.Micros(v.at), v.account, v.id)
	}
	return was, err
}

var insertFirings = db.Insert("firings", "id, account_id, name, triggered_at, data, action", func(f store.Firing) []any {
	return []any{f.ID, f.AccountID, f.Name, db.Micros(f.TriggeredAt), string(f.Data), f.Action}
})
