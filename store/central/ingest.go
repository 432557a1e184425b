package central

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
	"partneredge/store/valid"
	"partneredge/wasm/event"
)

// Writes of the sources of an account. Each write, its change, its event and the
// event's deliveries are one transaction. The event is nil where none was
// emitted, and Silenced where the account is not live. Runs, firings and contacts are
// done once where ctx names them (idempotency.With).

// ingestion is a write of a source to an account.
type ingestion struct {
	idempotency.Writes
	refused error // why it makes no sense; nil: it does
}

// ingested holds the record and the event of an ingestion, which it returns and
// keeps under an idempotency key.
type ingested[T any] struct {
	Record T            `json:"record"`
	Event  *store.Event `json:"event,omitempty"`
}

// ingest runs fn as writeTo does, unless the idempotency key of ctx says that this
// was done before. What fn did and its key are one transaction.
func ingest[T any](ctx context.Context, d *DB, in ingestion, fn func(context.Context, *tx) (T, *store.Event, error)) (T, *store.Event, error) {
	once := idempotency.Of(ctx)
	var done ingested[T]
	err := d.writeTo(ctx, "add "+in.Noun, in.Account, in.refused, func(ctx context.Context, t *tx) (err error) {
		done = ingested[T]{}
		if once != nil {
			err = in.Repeat(ctx, t.Tx, once, &done)
			if done.Event != nil {
				done.Event.Body = nil // else null, as it was kept
			}
			if err != nil || once.Repeated {
				return err
			}
		}
		if done.Record, done.Event, err = fn(ctx, t); err != nil || once == nil {
			return err
		}
		kept := done
		if kept.Event != nil {
			event := *kept.Event
			event.Body = nil
			kept.Event = &event
		}
		return in.Keep(ctx, t.Tx, once, kept)
	})
	if err != nil {
		var none T
		return none, nil, err
	}
	return done.Record, done.Event, nil
}

// AddCoachingRun adds the insights of one run. Ids are made and creation is
// now where they are not set; a creation time that the account has already
// moves by microseconds. One event announces the newest. No insights: no event.
func (d *DB) AddCoachingRun(ctx context.Context, accountID string, insights []store.Insight) (added []store.Insight, emitted *store.Event, err error) {
	now := d.db.Now()
	run := make([]store.Insight, len(insights))
	var refused error
	for i, in := range insights {
		in.ID, in.AccountID, in.CreatedAt = cmp.Or(in.ID, store.NewID("ins", now)), accountID, db.TimeOr(in.CreatedAt, now)
		refused = cmp.Or(refused, errors.Join(valid.IDs("insight id", in.ID), valid.Times(in.CreatedAt),
			valid.Texts("headline", in.Headline, "detail", in.Detail)))
		run[i] = in
	}
	in := ingestion{idempotency.Writes{Account: accountID, Noun: "coaching run"}, refused}
	return ingest(ctx, d, in, func(ctx context.Context, t *tx) ([]store.Insight, *store.Event, error) {
		added, newest := make([]store.Insight, len(run)), 0
		for i, in := range run {
			var err error
			if in.CreatedAt, err = t.uniqueTime(ctx, series{"insights", "created_at", accountID}, in.CreatedAt); err != nil {
				return nil, nil, err
			}
			if _, err := t.Exec(ctx, `INSERT INTO insights (id, account_id, headline, detail, created_at) VALUES (?, ?, ?, ?, ?)`,
				in.ID, accountID, in.Headline, in.Detail, store.Micros(in.CreatedAt)); err != nil {
				return nil, nil, err
			}
			added[i] = in
			if in.CreatedAt.After(added[newest].CreatedAt) {
				newest = i
			}
		}
		if len(added) == 0 {
			return added, nil, nil
		}
		t.changed(store.ChangeInsights, accountID, false)
		emitted, err := t.emit(ctx, accountID, store.EventInsightCreated, event.Insight{
			InsightID: added[newest].ID,
			Headline:  added[newest].Headline,
			CreatedAt: event.Time(added[newest].CreatedAt),
		})
		return added, emitted, err
	})
}

// AddFiring adds a firing of a sentinel. The id is made and the time is now
// where they are not set; a time that the account has already moves by
// microseconds. Data must be a JSON object; none is {}.
func (d *DB) AddFiring(ctx context.Context, f store.Firing) (added store.Firing, emitted *store.Event, err error) {
	now := d.db.Now()
	f.ID, f.TriggeredAt = cmp.Or(f.ID, store.NewID("fir", now)), db.TimeOr(f.TriggeredAt, now)
	var refused error
	f.Data, refused = valid.Object("trigger data", f.Data)
	refused = cmp.Or(refused, errors.Join(valid.IDs("firing id", f.ID), valid.Times(f.TriggeredAt),
		valid.Texts("sentinel name", f.Name, "action taken", f.Action)))
	return ingest(ctx, d, ingestion{idempotency.Writes{Account: f.AccountID, Noun: "firing"}, refused}, func(ctx context.Context, t *tx) (store.Firing, *store.Event, error) {
		added := f
		var err error
		if added.TriggeredAt, err = t.uniqueTime(ctx, series{"firings", "triggered_at", f.AccountID}, f.TriggeredAt); err != nil {
			return added, nil, err
		}
		t.firings = append(t.firings, added)
		t.changed(store.ChangeFirings, f.AccountID, false)
		emitted, err := t.emit(ctx, f.AccountID, store.EventSentinelFired, event.Firing{
			FiringID:     f.ID,
			SentinelName: f.Name,
			TriggeredAt:  event.Time(added.TriggeredAt),
			ActionTaken:  f.Action,
		})
		return added, emitted, err
	})
}

// contactNoun names contacts among what is kept under idempotency keys.
const contactNoun = "contact"

// AddContact adds an entry of the contact log. The id is made and the time is
// now where they are not set. ErrConflict when the client is a lead that was deleted.
func (d *DB) AddContact(ctx context.Context, c store.Contact) (added store.Contact, emitted *store.Event, err error) {
	now := d.db.Now()
	c.ID, c.OccurredAt = cmp.Or(c.ID, store.NewID("con", now)), db.TimeOr(c.OccurredAt, now)
	refused := errors.Join(valid.IDs("contact id", c.ID, "client id", c.ClientID),
		valid.OneOf("channel", c.Channel, "phone", "email", "sms"), valid.Times(c.OccurredAt))
	return ingest(ctx, d, ingestion{idempotency.Writes{Account: c.AccountID, Noun: contactNoun}, refused}, func(ctx context.Context, t *tx) (store.Contact, *store.Event, error) {
		if isLead(c.ClientID) {
			gone, err := t.buried(ctx, []string{c.ClientID})
			if err == nil && gone[c.ClientID] {
				err = fmt.Errorf("%w: the lead %s was deleted", store.ErrConflict, c.ClientID)
			}
			if err != nil {
				return c, nil, err
			}
		}
		if _, err := t.Exec(ctx, `INSERT INTO contacts (id, account_id, client_id, channel, occurred_at) VALUES (?, ?, ?, ?, ?)`,
			c.ID, c.AccountID, c.ClientID, c.Channel, store.Micros(c.OccurredAt)); err != nil {
			return c, nil, err
		}
		emitted, err := t.emit(ctx, c.AccountID, store.EventClientContacted, event.Contact{
			ContactID:  c.ID,
			ClientID:   c.ClientID,
			Channel:    c.Channel,
			OccurredAt: event.Time(c.OccurredAt),
		})
		return c, emitted, err
	})
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
func (d *DB) PutDeal(ctx context.Context, in store.Deal) (Put[store.Deal], error) {
	refused := cmp.Or(valid.IDs("deal id", in.ID), valid.Texts("stage", in.Stage))
	if in.Stage == "" {
		refused = cmp.Or(refused, valid.Errorf("stage is empty"))
	}
	put, err := d.putValue(ctx, dealValues, value{in.AccountID, in.ID, in.Stage, in.ChangedAt}, refused, func(from, at string) any {
		return event.Deal{DealID: in.ID, FromStage: from, ToStage: in.Stage, ChangedAt: at}
	})
	in.ChangedAt = put.Record.at
	return written(Put[store.Deal]{in, put.Changed, put.Event}, err)
}

// PutGoal sets the pace of a goal, as PutDeal does the stage of a deal.
func (d *DB) PutGoal(ctx context.Context, in store.Goal) (Put[store.Goal], error) {
	refused := cmp.Or(valid.IDs("goal id", in.ID), valid.OneOf("pace", in.Pace, "on_pace", "behind", "ahead"))
	put, err := d.putValue(ctx, goalValues, value{in.AccountID, in.ID, in.Pace, in.ChangedAt}, refused, func(from, at string) any {
		return event.Goal{GoalID: in.ID, Pace: in.Pace, PreviousPace: from, ChangedAt: at}
	})
	in.ChangedAt = put.Record.at
	return written(Put[store.Goal]{in, put.Changed, put.Event}, err)
}

// values names the column of a table that holds one value of each record, and the
// event of its changes.
type values struct{ noun, table, column, event string }

var (
	dealValues = values{"deal", "deals", "stage", store.EventDealChanged}
	goalValues = values{"goal", "goals", "pace", store.EventGoalChanged}
)

// value of a deal or a goal, and since when.
type value struct {
	account, id, text string
	at                time.Time
}

// putValue sets a value. changed makes the data of the event of a change from
// another value.
func (d *DB) putValue(ctx context.Context, k values, v value, refused error, changed func(from, at string) any) (put Put[value], err error) {
	v.at = db.TimeOr(v.at, d.db.Now())
	refused = cmp.Or(refused, valid.Times(v.at))
	err = d.writeTo(ctx, "put "+k.noun, v.account, refused, func(ctx context.Context, t *tx) error {
		was, known, err := t.put(ctx, k, v)
		if err != nil {
			return err
		}
		put = Put[value]{Record: v, Changed: was.text != v.text}
		switch {
		case !put.Changed:
			put.Record.at = was.at
		case known:
			put.Event, err = t.emit(ctx, v.account, k.event, changed(was.text, event.Time(v.at)))
		}
		return err
	})
	return put, err
}

// put writes a value and returns the one before, which stays with its time when
// it is the same; known is false for a new one.
func (t *tx) put(ctx context.Context, k values, v value) (was value, known bool, err error) {
	err = t.Get(ctx, `SELECT `+k.column+`, changed_at FROM `+k.table+` WHERE account_id = ? AND id = ?`,
		[]any{v.account, v.id}, &was.text, db.Time(&was.at))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = t.Exec(ctx, `INSERT INTO `+k.table+` (account_id, id, `+k.column+`, changed_at) VALUES (?, ?, ?, ?)`,
			v.account, v.id, v.text, store.Micros(v.at))
		return value{}, false, err
	case err == nil && was.text != v.text:
		_, err = t.Exec(ctx, `UPDATE `+k.table+` SET `+k.column+` = ?, changed_at = ? WHERE account_id = ? AND id = ?`,
			v.text, store.Micros(v.at), v.account, v.id)
	}
	return was, true, err
}

var insertFirings = db.Insert("firings", "id, account_id, name, triggered_at, data, action", func(f store.Firing) []any {
	return []any{f.ID, f.AccountID, f.Name, store.Micros(f.TriggeredAt), string(f.Data), f.Action}
})

// Times of one kind of row are unique within an account: pages are told apart
// by them. A time that a row has already moves forward by microseconds to the
// first that is free. The transaction holds the account, so that it stays free.

const (
	timesRead  = 1024  // times read at once
	timesBack  = 100e3 // microseconds read before the one asked for: callers that wait together ask in any order
	timesAhead = 10e6  // microseconds after now in which the newest time is looked for
)

// series names the times of one table's rows in one account.
type series struct{ table, column, account string }

// times holds the times of a series that a transaction has read or given.
type times struct {
	from, upto int64          // the span that was read
	used       map[int64]bool // in that span
	given      map[int64]bool // by this transaction, written or not
}

// uniqueTime moves at forward by microseconds until the account has no row of the
// series at that time. ErrInvalid when that leaves the years that can be written.
func (t *tx) uniqueTime(ctx context.Context, s series, at time.Time) (time.Time, error) {
	known := t.times[s]
	if known == nil {
		known = &times{from: 1, given: make(map[int64]bool)}
		latest, upto, err := t.newestOf(ctx, s)
		if err != nil {
			return at, err
		}
		if upto > 0 { // all between them are free
			known.from, known.upto = latest+1, upto
		}
		t.times[s] = known
	}
	for us := at.UnixMicro(); ; us++ {
		if us < known.from || us > known.upto {
			if err := t.readTimes(ctx, s, known, us-timesBack); err != nil {
				return at, err
			}
		}
		if us > known.upto { // there were more before it than are read at once
			if err := t.readTimes(ctx, s, known, us); err != nil {
				return at, err
			}
		}
		if !known.used[us] && !known.given[us] {
			free := store.TimeOf(us)
			if err := valid.Times(free); err != nil {
				return at, err
			}
			known.given[us] = true
			return free, nil
		}
	}
}

// newest holds the latest time of a series in each account, of those up to upto.
type newest struct {
	of   map[string]int64 // 0: there is none
	upto int64
}

// newestOf returns the latest time of a series up to a time soon after now, and that time,
// once a second account of the transaction asks for one: then it is read for all accounts
// that the transaction holds. Before that upto is 0. Rows that lie further ahead, since the
// clock of a source was wrong, would else come after every time that is asked for.
func (t *tx) newestOf(ctx context.Context, s series) (latest, upto int64, err error) {
	all := series{table: s.table, column: s.column}
	read, asked := t.newest[all]
	if !asked {
		t.newest[all] = newest{}
		return 0, 0, nil
	}
	if read.of == nil {
		read.upto = store.Micros(t.Now()) + timesAhead
		read.of, err = db.Map[string, int64](ctx, t, `SELECT id, coalesce((SELECT max(`+s.column+`) FROM `+s.table+`
				WHERE account_id = accounts.id AND `+s.column+` <= ?), 0)
			FROM accounts WHERE `+t.In("id"), read.upto, t.Set(slices.Collect(maps.Keys(t.modes))))
		if err != nil {
			return 0, 0, err
		}
		t.newest[all] = read
	}
	latest, held := read.of[s.account]
	if !held {
		return 0, 0, nil
	}
	return latest, read.upto, nil
}

// readTimes reads the times that rows of the series have, beginning at from.
func (t *tx) readTimes(ctx context.Context, s series, known *times, from int64) error {
	read, err := db.All(ctx, t, db.Column[int64], `SELECT `+s.column+` FROM `+s.table+`
		WHERE account_id = ? AND `+s.column+` >= ? ORDER BY `+s.column+` LIMIT ?`, s.account, from, timesRead)
	if err != nil {
		return err
	}
	known.from, known.upto, known.used = from, math.MaxInt64, make(map[int64]bool, len(read))
	for _, us := range read {
		known.used[us] = true
	}
	if len(read) == timesRead {
		known.upto = read[timesRead-1]
	}
	return nil
}
