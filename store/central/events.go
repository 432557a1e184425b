package central

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"partneredge/store"
)

// eventTime is how an envelope writes times: ISO 8601 in UTC, with all six
// digits of its microseconds.
const eventTime = "2006-01-02T15:04:05.000000Z"

func iso(t time.Time) string { return t.UTC().Format(eventTime) }

// envelope is an event as partners receive it.
type envelope struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	AccountID string `json:"account_id"`
	CreatedAt string `json:"created_at"`
	Data      any    `json:"data"`
}

// Data of each type of event.
type (
	insightCreated struct {
		InsightID string `json:"insight_id"`
		Headline  string `json:"headline"`
		CreatedAt string `json:"created_at"`
	}
	sentinelFired struct {
		FiringID     string `json:"firing_id"`
		SentinelName string `json:"sentinel_name"`
		TriggeredAt  string `json:"triggered_at"`
		ActionTaken  string `json:"action_taken"`
	}
	dealChanged struct {
		DealID    string `json:"deal_id"`
		FromStage string `json:"from_stage"`
		ToStage   string `json:"to_stage"`
		ChangedAt string `json:"changed_at"`
	}
	clientContacted struct {
		ContactID  string `json:"contact_id"`
		ClientID   string `json:"client_id"`
		Channel    string `json:"channel"`
		OccurredAt string `json:"occurred_at"`
	}
	goalChanged struct {
		GoalID       string `json:"goal_id"`
		Pace         string `json:"pace"`
		PreviousPace string `json:"previous_pace"`
		ChangedAt    string `json:"changed_at"`
	}
)

// target is a subscription that live events of its account go to.
type target struct {
	id          string
	events      []string
	url         string
	secrets     []string
	failingFrom time.Time
}

// emit makes the event of a write to account, which the transaction holds, and
// one delivery for every subscription that is to have it. They are written when
// the transaction ends.
func (t *tx) emit(ctx context.Context, account, kind string, data any) (*store.Event, error) {
	mode, held := t.modes[account]
	if !held {
		return nil, fmt.Errorf("%w: account %s", store.ErrNotFound, account)
	}
	now := t.db.now()
	e := &store.Event{
		ID:        store.NewID("evt", now),
		AccountID: account,
		Type:      kind,
		CreatedAt: now,
		Silenced:  mode != store.ModeLive,
	}
	var err error
	e.Body, err = json.Marshal(envelope{e.ID, kind, account, iso(now), data})
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	t.events.add(e)
	if e.Silenced {
		return e, nil
	}
	targets, err := t.targetsOf(ctx, account)
	if err != nil {
		return nil, err
	}
	for _, to := range targets {
		for _, wanted := range to.events {
			if wanted == kind {
				t.deliver(e, to)
				break
			}
		}
	}
	return e, nil
}

// targetsOf reads the live, unrevoked subscriptions of an account, once a
// transaction. Whoever changes them forgets them (see forgetTargets).
func (t *tx) targetsOf(ctx context.Context, account string) ([]target, error) {
	if targets, ok := t.targets[account]; ok {
		return targets, nil
	}
	rows, err := t.query(ctx, `SELECT id, events, target_url, failing_from, `+signingColumns+` FROM subscriptions
		WHERE account_id = ? AND revoked_at = 0 AND environment = 'live'`, account)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var targets []target
	for rows.Next() {
		var to target
		var s signing
		if err := rows.Scan(append([]any{&to.id, asJSON(&to.events), &to.url, asTime(&to.failingFrom)}, s.scan()...)...); err != nil {
			return nil, err
		}
		to.secrets = t.db.secrets(to.id, s)
		targets = append(targets, to)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if t.targets == nil {
		t.targets = make(map[string][]target)
	}
	t.targets[account] = targets
	return targets, nil
}

func (t *tx) forgetTargets(account string) { delete(t.targets, account) }

// eventRows wait to be written, column by column.
type eventRows struct {
	id, account, kind, body []string
	created, silenced       []int64
}

func (r *eventRows) add(e *store.Event) {
	r.id = append(r.id, e.ID)
	r.account = append(r.account, e.AccountID)
	r.kind = append(r.kind, e.Type)
	r.body = append(r.body, string(e.Body))
	r.created = append(r.created, e.CreatedAt.UnixMicro())
	r.silenced = append(r.silenced, bit(e.Silenced))
}

func (r *eventRows) truncate(n int) {
	r.id, r.account, r.kind, r.body = r.id[:n], r.account[:n], r.kind[:n], r.body[:n]
	r.created, r.silenced = r.created[:n], r.silenced[:n]
}

func (r *eventRows) write(ctx context.Context, t *tx) error {
	if len(r.id) == 0 {
		return nil
	}
	_, err := t.bulk(ctx, `INSERT INTO events (id, account_id, type, created_at, silenced, body)
		SELECT id, account_id, type, created_at, silenced, body FROM v`,
		column{name: "id", text: r.id},
		column{name: "account_id", text: r.account},
		column{name: "type", text: r.kind},
		column{name: "created_at", ints: r.created},
		column{name: "silenced", ints: r.silenced},
		column{name: "body", text: r.body})
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// deliveryRows wait to be written, column by column.
type deliveryRows struct {
	id, event, subscription, owner []string
	at, due                        []int64
}

func (r *deliveryRows) add(id, event, subscription, owner string, at, due int64) {
	r.id = append(r.id, id)
	r.event = append(r.event, event)
	r.subscription = append(r.subscription, subscription)
	r.owner = append(r.owner, owner)
	r.at = append(r.at, at)
	r.due = append(r.due, due)
}

func (r *deliveryRows) truncate(n int) {
	r.id, r.event, r.subscription, r.owner = r.id[:n], r.event[:n], r.subscription[:n], r.owner[:n]
	r.at, r.due = r.at[:n], r.due[:n]
}

func (r *deliveryRows) write(ctx context.Context, t *tx) error {
	if len(r.id) == 0 {
		return nil
	}
	_, err := t.bulk(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before,
			next_at, due_at, lease_owner, created_at, updated_at)
		SELECT id, event_id, subscription_id, 'pending', 0, 0, at, due, owner, at, at FROM v`,
		column{name: "id", text: r.id},
		column{name: "event_id", text: r.event},
		column{name: "subscription_id", text: r.subscription},
		column{name: "owner", text: r.owner},
		column{name: "at", ints: r.at},
		column{name: "due", ints: r.due})
	if err != nil {
		return fmt.Errorf("write deliveries: %w", err)
	}
	return nil
}

// cancelUnwritten takes out what waits to be written for a subscription that
// this same transaction revokes. Nothing of the job that calls it may fail
// afterwards, since reset counts rows.
func (t *tx) cancelUnwritten(subscriptionID string) {
	r, kept := &t.deliveries, deliveryRows{}
	for i, s := range r.subscription {
		if s != subscriptionID {
			kept.add(r.id[i], r.event[i], s, r.owner[i], r.at[i], r.due[i])
		}
	}
	t.deliveries = kept
	t.taken = slices.DeleteFunc(t.taken, func(c Claim) bool { return c.SubscriptionID == subscriptionID })
}

// Event reads one event.
func (db *DB) Event(ctx context.Context, id string) (store.Event, error) {
	tried := "read event"
	if err := mustBeText("event", id); err != nil {
		return store.Event{}, db.fail(tried, err)
	}
	var e store.Event
	var body string
	err := db.queryRow(ctx, `SELECT id, account_id, type, created_at, silenced, body FROM events WHERE id = ?`, id).
		Scan(&e.ID, &e.AccountID, &e.Type, asTime(&e.CreatedAt), &e.Silenced, &body)
	e.Body = json.RawMessage(body)
	return e, db.fail(tried, err)
}
