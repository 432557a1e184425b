package deliveries

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Outcome of a claim.
type Outcome struct {
	// Attempt that was made. Number 0 says that none was: then only DeliveryID
	// counts, and State pending ends the lease that Owner has.
	Attempt store.Attempt
	// Owner of the lease that is to end. On PostgreSQL one that another process has by
	// now, or nobody, stays as it is.
	Owner  string
	State  store.State // pending, delivered, dead or cancelled
	NextAt time.Time   // of pending: when to try again, by the clock of this process
	// SubscriptionID of the claim. "" leaves its FailingFrom alone, and on SQLite has
	// what is pending again found when its lease ends.
	SubscriptionID string
}

func (o Outcome) validate() error {
	if o.State == store.StatePending && o.NextAt.IsZero() {
		return valid.Errorf("a pending outcome has no next time")
	}
	if o.Attempt.Number < 0 || (o.Attempt.Number > 0 && o.Attempt.StartedAt.IsZero()) {
		return valid.Errorf("an attempt has no number or no start")
	}
	if o.endsLease() && (o.Owner == "" || !valid.Text(o.Owner)) {
		return valid.Errorf("a lease that ends has no owner")
	}
	return errors.Join(validateState(o.State),
		valid.IDs("delivery id", o.Attempt.DeliveryID), valid.Times(o.NextAt, o.Attempt.StartedAt))
}

// endsLease reports whether a delivery is as it was before it was claimed.
func (o *Outcome) endsLease() bool { return o.Attempt.Number == 0 && o.State == store.StatePending }

func validateState(state store.State) error {
	return valid.OneOf("state", state, store.StatePending, store.StateDelivered, store.StateDead, store.StateCancelled)
}

// RecordOutcomes writes outcomes and their attempts in one transaction. It is idempotent:
// an attempt whose number is there already is left as it was, and a delivery that is not
// pending any more keeps its state, but counts the attempt. Text of an attempt that the
// database cannot hold is made so: what comes back from an endpoint is not the caller's
// fault.
func (s *Store) RecordOutcomes(ctx context.Context, outcomes []Outcome) error {
	const op = "record outcomes of deliveries"
	for _, o := range outcomes {
		if err := o.validate(); err != nil {
			return db.Fail(op, err)
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	// In the order of ids, so that two who record and cancel the same rows do not
	// wait for each other.
	sorted := make([]*Outcome, len(outcomes)) // an Outcome is large to move
	for i := range outcomes {
		sorted[i] = &outcomes[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Outcome) int {
		return strings.Compare(a.Attempt.DeliveryID, b.Attempt.DeliveryID)
	})
	err := s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		// Subscriptions before deliveries, as a revocation locks them.
		if err := updateFailing(ctx, t, sorted); err != nil {
			return err
		}
		written, err := s.updateStates(store.Micros(t.Now())).Count(ctx, t, sorted)
		if err != nil {
			return err
		}
		if written < int64(len(sorted)) {
			if err := keepDeliveries(ctx, t, sorted); err != nil {
				return err
			}
			if err := countAttempts.Run(ctx, t, sorted); err != nil {
				return err
			}
		}
		tried := slices.DeleteFunc(slices.Clone(sorted), func(o *Outcome) bool { return o.Attempt.Number == 0 })
		return insertAttempts.Run(ctx, t, tried)
	})
	if err == nil && !s.db.Postgres() {
		s.waiting.add(s.pendingAgain(sorted), s.db.Now())
	}
	return db.Fail(op, err)
}

// pendingAgain returns when outcomes are due that have their deliveries wait again.
func (s *Store) pendingAgain(outcomes []*Outcome) (heads []head) {
	for _, o := range outcomes {
		if o.State == store.StatePending && o.SubscriptionID != "" {
			heads = append(heads, head{id: o.SubscriptionID, due: store.Micros(s.db.FromLocal(o.NextAt))})
		}
	}
	return heads
}

// excerptMost bounds the bytes that are kept of an attempt's texts.
const excerptMost = 4096

// holdable returns s as the database can hold it, cut to an excerpt, and without control
// characters but those that lay out text: in JSON each would be six bytes, so that what an
// endpoint sends could make a page of the log longer than any client reads.
func holdable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), excerptMost)], "\uFFFD"))
	if len(s) <= excerptMost {
		return s
	}
	return strings.ToValidUTF8(s[:excerptMost], "") // replacements are longer
}

// headersText returns headers as db.JSONText does, at a fifth of its cost for those that
// need no escapes.
func headersText(headers map[string]string) string {
	names, size := make([]string, 0, 8), 2
	for name, value := range headers {
		if !plain(name) || !plain(value) {
			return db.JSONText(headers)
		}
		names = append(names, name)
		size += len(name) + len(value) + len(`"":"",`)
	}
	if len(names) == 0 {
		return db.JSONText(headers)
	}
	slices.Sort(names)
	text := make([]byte, 0, size)
	for _, name := range names {
		text = append(append(append(append(text, `,"`...), name...), `":"`...), headers[name]...)
		text = append(text, '"')
	}
	text[0] = '{'
	return string(append(text, '}'))
}

// plain reports whether s is the same in JSON, between quotes.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

var insertAttempts = db.Bulk[*Outcome]{
	Tried:   "write attempts",
	Columns: "delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error",
	Row: func(o *Outcome) []any {
		a := &o.Attempt
		headers := strings.ReplaceAll(headersText(a.Headers), "\x00", "")
		return []any{a.DeliveryID, int64(a.Number), holdable(a.ID), store.Micros(a.StartedAt), a.Latency.Microseconds(), int64(a.Status),
			headers, holdable(a.Excerpt), holdable(a.Error)}
	},
	Statement: `INSERT INTO attempts (delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error)
		SELECT delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error FROM v
		WHERE EXISTS (SELECT 1 FROM deliveries d WHERE d.id = v.delivery_id)
		ON CONFLICT (delivery_id, number) DO NOTHING`,
}

// keepDeliveries keeps an erasure from deleting the deliveries of outcomes until the
// transaction ends, or waits for it: it would not see the attempts that are written here.
// Deliveries that updateStates has written are kept as it is. The lock is that of
// countAttempts, so that two who record the same deliveries take it in the order of ids.
func keepDeliveries(ctx context.Context, t *db.Tx, outcomes []*Outcome) error {
	if !t.Postgres() {
		return nil // one writes at a time
	}
	ids := make([]string, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.Attempt.DeliveryID
	}
	_, err := t.Strings(ctx, `SELECT id FROM deliveries WHERE `+t.In("id")+` ORDER BY id FOR NO KEY UPDATE`, t.Set(ids))
	return err
}

// countAttempts counts attempts of deliveries that were cancelled, or ended otherwise,
// while the attempts were under way: the log shows none of a delivery that counts none.
var countAttempts = db.Bulk[*Outcome]{
	Tried:   "count attempts",
	Columns: "id, number",
	Row:     func(o *Outcome) []any { return []any{o.Attempt.DeliveryID, int64(o.Attempt.Number)} },
	Statement: `UPDATE deliveries SET attempts = v.number FROM v
		WHERE deliveries.id = v.id AND deliveries.state <> 'pending' AND v.number > attempts`,
}

// updateStates writes the states of outcomes. A late outcome of an earlier try
// must not take back a later one's, nor end another process's lease: SQLite has
// one process only. The state is hidden from PostgreSQL's planner,
// which in a young database would rather read a whole index of what is pending
// than look each id up: otherwise than in the condition of deliveries_written.
func (s *Store) updateStates(now int64) db.Bulk[*Outcome] {
	columns, untried := "id, state, number, next_at, updated_at", "v.number = 0"
	if s.db.Postgres() {
		columns, untried = columns+", owner", "v.number = 0 AND (v.state <> 'pending' OR deliveries.lease_owner = v.owner)"
	}
	return db.Bulk[*Outcome]{
		Tried:   "write outcomes",
		Columns: columns,
		Row: func(o *Outcome) []any {
			next := int64(0)
			if o.State == store.StatePending {
				next = store.Micros(s.db.FromLocal(o.NextAt))
			}
			row := []any{o.Attempt.DeliveryID, string(o.State), int64(o.Attempt.Number), next, now}
			if s.db.Postgres() {
				row = append(row, o.Owner)
			}
			return row
		},
		Statement: `UPDATE deliveries SET state = v.state, next_at = v.next_at, due_at = v.next_at, lease_owner = '',
			attempts = CASE WHEN v.number > attempts THEN v.number ELSE attempts END, updated_at = v.updated_at` + s.written() + `
		FROM v WHERE deliveries.id = v.id AND '' || deliveries.state = 'pending' AND (v.number > attempts OR ` + untried + `)`,
	}
}

// updateFailing keeps for each subscription since when its tries fail without one
// that went well. An outcome that comes twice counts twice; the next one that
// goes well sets it right.
func updateFailing(ctx context.Context, t *db.Tx, outcomes []*Outcome) error {
	tries := slices.DeleteFunc(slices.Clone(outcomes), func(o *Outcome) bool {
		return o.Attempt.Number == 0 || o.SubscriptionID == ""
	})
	slices.SortStableFunc(tries, func(a, b *Outcome) int { return a.Attempt.StartedAt.Compare(b.Attempt.StartedAt) })
	succeeded := make(map[string]bool)
	since := make(map[string]time.Time) // the first failure after the last success
	for _, o := range tries {
		switch _, failing := since[o.SubscriptionID]; {
		case o.State == store.StateDelivered:
			succeeded[o.SubscriptionID] = true
			delete(since, o.SubscriptionID)
		case !failing:
			since[o.SubscriptionID] = o.Attempt.StartedAt
		}
	}
	well, ill := slices.Sorted(maps.Keys(succeeded)), slices.Sorted(maps.Keys(since))
	if err := lockFailing(ctx, t, well, ill); err != nil {
		return err
	}
	if len(well) > 0 {
		if _, err := t.Exec(ctx, `UPDATE subscriptions SET failing_from = 0 WHERE failing_from <> 0 AND `+t.In("id"), t.Set(well)); err != nil {
			return err
		}
	}
	return startFailing(since).Run(ctx, t, ill)
}

// lockFailing locks the subscriptions that updateFailing changes, in the order of
// their ids, so that two who record outcomes of the same ones do not wait for each
// other. A healthy one of which all goes well is not among them.
func lockFailing(ctx context.Context, t *db.Tx, well, ill []string) error {
	if !t.Postgres() {
		return nil // one writes at a time
	}
	_, err := t.Strings(ctx, `SELECT id FROM subscriptions
		WHERE failing_from <> 0 AND `+t.In("id")+` OR failing_from = 0 AND `+t.In("id")+` ORDER BY id FOR UPDATE`, t.Set(well), t.Set(ill))
	return err
}

// startFailing writes when subscriptions began to fail, unless they fail already.
func startFailing(since map[string]time.Time) db.Bulk[string] {
	return db.Bulk[string]{
		Tried:   "note failing subscriptions",
		Columns: "id, since",
		Row:     func(id string) []any { return []any{id, store.Micros(since[id])} },
		Statement: `UPDATE subscriptions SET failing_from = v.since FROM v
			WHERE subscriptions.id = v.id AND subscriptions.failing_from = 0`,
	}
}
