package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"partneredge/store"
)

// What sources feed into an account. Each write, its change, its event and the
// event's deliveries are one transaction. The event is nil where none was
// emitted, and Silenced where the account is not live.

// AddCoachingRun adds the insights of one run. Ids are made and creation is
// now where they are not set; a creation time that the account has already
// moves by microseconds. One event tells of the newest. No insights: no event.
func (db *DB) AddCoachingRun(ctx context.Context, accountID string, insights []store.Insight) (added []store.Insight, event *store.Event, err error) {
	const tried = "add coaching run"
	if err := mustBeText("account", accountID); err != nil {
		return nil, nil, db.fail(tried, err)
	}
	now := db.now()
	run := make([]store.Insight, len(insights))
	for i, in := range insights {
		if in.ID == "" {
			in.ID = store.NewID("ins", now)
		}
		in.AccountID = accountID
		in.CreatedAt = timeOr(in.CreatedAt, now)
		if err := errors.Join(checkIDs(field{"insight id", in.ID}), checkTimes(in.CreatedAt),
			checkTexts(field{"headline", in.Headline}, field{"detail", in.Detail})); err != nil {
			return nil, nil, db.fail(tried, err)
		}
		run[i] = in
	}
	err = db.change(ctx, accountID, func(ctx context.Context, t *tx) error {
		added, event = make([]store.Insight, len(run)), nil
		newest := 0
		for i, in := range run {
			var err error
			if in.CreatedAt, err = t.nudge(ctx, "insights", "created_at", accountID, in.CreatedAt); err != nil {
				return err
			}
			if _, err := t.exec(ctx, `INSERT INTO insights (id, account_id, headline, detail, created_at) VALUES (?, ?, ?, ?, ?)`,
				in.ID, accountID, in.Headline, in.Detail, micros(in.CreatedAt)); err != nil {
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
		return nil, nil, db.fail(tried, err)
	}
	return added, event, nil
}

// AddFiring adds a firing of a sentinel. The id is made and the time is now
// where they are not set; a time that the account has already moves by
// microseconds. Data must be a JSON object; none is {}.
func (db *DB) AddFiring(ctx context.Context, f store.Firing) (added store.Firing, event *store.Event, err error) {
	const tried = "add firing"
	if err := mustBeText("account", f.AccountID); err != nil {
		return added, nil, db.fail(tried, err)
	}
	now := db.now()
	if f.ID == "" {
		f.ID = store.NewID("fir", now)
	}
	f.TriggeredAt = timeOr(f.TriggeredAt, now)
	if f.Data, err = checkObject("trigger data", f.Data); err != nil {
		return added, nil, db.fail(tried, err)
	}
	if err := errors.Join(checkIDs(field{"firing id", f.ID}), checkTimes(f.TriggeredAt),
		checkTexts(field{"sentinel name", f.Name}, field{"action taken", f.Action})); err != nil {
		return added, nil, db.fail(tried, err)
	}
	err = db.change(ctx, f.AccountID, func(ctx context.Context, t *tx) error {
		added = f
		var err error
		if added.TriggeredAt, err = t.nudge(ctx, "firings", "triggered_at", f.AccountID, f.TriggeredAt); err != nil {
			return err
		}
		t.firings.add(added)
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
		return store.Firing{}, nil, db.fail(tried, err)
	}
	return added, event, nil
}

// AddContact adds an entry of the contact log. The id is made and the time is
// now where they are not set.
func (db *DB) AddContact(ctx context.Context, c store.Contact) (added store.Contact, event *store.Event, err error) {
	const tried = "add contact"
	if err := mustBeText("account", c.AccountID); err != nil {
		return added, nil, db.fail(tried, err)
	}
	now := db.now()
	if c.ID == "" {
		c.ID = store.NewID("con", now)
	}
	c.OccurredAt = timeOr(c.OccurredAt, now)
	if err := errors.Join(checkIDs(field{"contact id", c.ID}, field{"client id", c.ClientID}),
		checkOneOf("channel", c.Channel, "phone", "email", "sms"), checkTimes(c.OccurredAt)); err != nil {
		return added, nil, db.fail(tried, err)
	}
	err = db.change(ctx, c.AccountID, func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO contacts (id, account_id, client_id, channel, occurred_at) VALUES (?, ?, ?, ?, ?)`,
			c.ID, c.AccountID, c.ClientID, c.Channel, micros(c.OccurredAt)); err != nil {
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
		return store.Contact{}, nil, db.fail(tried, err)
	}
	return c, event, nil
}

// standing is where a deal or a goal stands: the caller's id, a value, and
// since when.
type standing struct {
	account, id, value string
	at                 time.Time
}

// put writes a standing into table. Where the value was so already, the stored
// standing stays as it is, with its time. emit is called only when a value
// gives way to another: a first value has no transition to tell of.
func (t *tx) put(ctx context.Context, table, column string, s standing, emit func(previous string) error) (now standing, created, changed bool, err error) {
	now = s
	var previous string
	err = t.one(ctx, `SELECT `+column+`, changed_at FROM `+table+` WHERE account_id = ? AND id = ?`,
		[]any{s.account, s.id}, &previous, asTime(&now.at))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = t.exec(ctx, `INSERT INTO `+table+` (account_id, id, `+column+`, changed_at) VALUES (?, ?, ?, ?)`,
			s.account, s.id, s.value, micros(s.at))
		return s, true, true, err
	case err != nil || previous == s.value:
		return now, false, false, err
	}
	if _, err := t.exec(ctx, `UPDATE `+table+` SET `+column+` = ?, changed_at = ? WHERE account_id = ? AND id = ?`,
		s.value, micros(s.at), s.account, s.id); err != nil {
		return s, false, false, err
	}
	return s, false, true, emit(previous)
}

// PutDeal sets the stage of a deal, whose id is the caller's. The time is now
// where it is not set. created says that the deal was not known, changed that
// the stage is not what it was (true for a new one); only a change from one
// stage to another emits an event.
func (db *DB) PutDeal(ctx context.Context, d store.Deal) (put store.Deal, created, changed bool, event *store.Event, err error) {
	const tried = "put deal"
	if err := mustBeText("account", d.AccountID); err != nil {
		return put, false, false, nil, db.fail(tried, err)
	}
	d.ChangedAt = timeOr(d.ChangedAt, db.now())
	if err := errors.Join(checkIDs(field{"deal id", d.ID}, field{"stage", d.Stage}), checkTimes(d.ChangedAt)); err != nil {
		return put, false, false, nil, db.fail(tried, err)
	}
	err = db.change(ctx, d.AccountID, func(ctx context.Context, t *tx) (err error) {
		event = nil
		var s standing
		s, created, changed, err = t.put(ctx, "deals", "stage", standing{d.AccountID, d.ID, d.Stage, d.ChangedAt},
			func(previous string) (err error) {
				event, err = t.emit(ctx, d.AccountID, store.EventDealChanged, dealChanged{
					DealID:    d.ID,
					FromStage: previous,
					ToStage:   d.Stage,
					ChangedAt: iso(d.ChangedAt),
				})
				return err
			})
		put = store.Deal{ID: d.ID, AccountID: d.AccountID, Stage: d.Stage, ChangedAt: s.at}
		return err
	})
	if err != nil {
		return store.Deal{}, false, false, nil, db.fail(tried, err)
	}
	return put, created, changed, event, nil
}

// PutGoal sets the pace of a goal, as PutDeal does the stage of a deal.
func (db *DB) PutGoal(ctx context.Context, g store.Goal) (put store.Goal, created, changed bool, event *store.Event, err error) {
	const tried = "put goal"
	if err := mustBeText("account", g.AccountID); err != nil {
		return put, false, false, nil, db.fail(tried, err)
	}
	g.ChangedAt = timeOr(g.ChangedAt, db.now())
	if err := errors.Join(checkIDs(field{"goal id", g.ID}), checkOneOf("pace", g.Pace, "on_pace", "behind", "ahead"),
		checkTimes(g.ChangedAt)); err != nil {
		return put, false, false, nil, db.fail(tried, err)
	}
	err = db.change(ctx, g.AccountID, func(ctx context.Context, t *tx) (err error) {
		event = nil
		var s standing
		s, created, changed, err = t.put(ctx, "goals", "pace", standing{g.AccountID, g.ID, g.Pace, g.ChangedAt},
			func(previous string) (err error) {
				event, err = t.emit(ctx, g.AccountID, store.EventGoalChanged, goalChanged{
					GoalID:       g.ID,
					Pace:         g.Pace,
					PreviousPace: previous,
					ChangedAt:    iso(g.ChangedAt),
				})
				return err
			})
		put = store.Goal{ID: g.ID, AccountID: g.AccountID, Pace: g.Pace, ChangedAt: s.at}
		return err
	})
	if err != nil {
		return store.Goal{}, false, false, nil, db.fail(tried, err)
	}
	return put, created, changed, event, nil
}

// firingRows wait to be written, column by column: an account may have
// hundreds a second.
type firingRows struct {
	id, account, name, data, action []string
	triggered                       []int64
}

func (r *firingRows) add(f store.Firing) {
	r.id = append(r.id, f.ID)
	r.account = append(r.account, f.AccountID)
	r.name = append(r.name, f.Name)
	r.data = append(r.data, string(f.Data))
	r.action = append(r.action, f.Action)
	r.triggered = append(r.triggered, micros(f.TriggeredAt))
}

func (r *firingRows) truncate(n int) {
	r.id, r.account, r.name, r.data = r.id[:n], r.account[:n], r.name[:n], r.data[:n]
	r.action, r.triggered = r.action[:n], r.triggered[:n]
}

func (r *firingRows) write(ctx context.Context, t *tx) error {
	if len(r.id) == 0 {
		return nil
	}
	_, err := t.bulk(ctx, `INSERT INTO firings (id, account_id, name, triggered_at, data, action)
		SELECT id, account_id, name, triggered_at, data, action FROM v`,
		column{name: "id", text: r.id},
		column{name: "account_id", text: r.account},
		column{name: "name", text: r.name},
		column{name: "triggered_at", ints: r.triggered},
		column{name: "data", text: r.data},
		column{name: "action", text: r.action})
	if err != nil {
		return fmt.Errorf("write firings: %w", err)
	}
	return nil
}
