package central

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"partneredge/store"
)

// excerptMost is how many bytes of an attempt's texts are kept.
const excerptMost = 4096

// FinishDeliveries writes outcomes and their attempts in one transaction. It is
// idempotent: an attempt whose number is there already is left as it was, and a
// delivery that is no longer pending keeps its state. Text of an attempt that
// the database cannot hold is made so: what comes back from an endpoint is not
// the caller's fault.
func (db *DB) FinishDeliveries(ctx context.Context, outcomes []Outcome) error {
	const tried = "finish deliveries"
	for _, o := range outcomes {
		if err := checkOutcome(o); err != nil {
			return db.fail(tried, err)
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	// In the order of ids, so that two who finish and cancel the same rows do
	// not wait for each other.
	outcomes = slices.Clone(outcomes)
	slices.SortStableFunc(outcomes, func(a, b Outcome) int {
		return strings.Compare(a.Attempt.DeliveryID, b.Attempt.DeliveryID)
	})
	return db.fail(tried, db.apart(ctx, func(ctx context.Context, t *tx) error {
		// Subscriptions before deliveries, as a revocation takes them.
		if err := t.noteFailing(ctx, outcomes); err != nil {
			return fmt.Errorf("note failing subscriptions: %w", err)
		}
		if err := t.insertAttempts(ctx, outcomes); err != nil {
			return fmt.Errorf("write attempts: %w", err)
		}
		return t.finish(ctx, outcomes)
	}))
}

func checkOutcome(o Outcome) error {
	if o.State == store.StatePending && o.NextAt.IsZero() {
		return invalid("a pending outcome has no next time")
	}
	if o.Attempt.Number < 0 || (o.Attempt.Number > 0 && o.Attempt.StartedAt.IsZero()) {
		return invalid("an attempt has no number or no start")
	}
	return errors.Join(
		checkOneOf("state", o.State, store.StatePending, store.StateDelivered, store.StateDead, store.StateCancelled),
		checkIDs(field{"delivery id", o.Attempt.DeliveryID}), checkTimes(o.NextAt, o.Attempt.StartedAt))
}

// holdable is s as the database can hold it, no longer than an excerpt.
func holdable(s string) string {
	if len(s) > excerptMost {
		s = s[:excerptMost]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func (t *tx) insertAttempts(ctx context.Context, outcomes []Outcome) error {
	var delivery, id, headers, excerpt, failure []string
	var number, started, latency, status []int64
	for _, o := range outcomes {
		a := o.Attempt
		if a.Number == 0 {
			continue
		}
		delivery, id = append(delivery, a.DeliveryID), append(id, holdable(a.ID))
		headers = append(headers, strings.ReplaceAll(jsonText(a.Headers), "\x00", ""))
		excerpt, failure = append(excerpt, holdable(a.Excerpt)), append(failure, holdable(a.Error))
		number, started = append(number, int64(a.Number)), append(started, micros(a.StartedAt))
		latency, status = append(latency, a.Latency.Microseconds()), append(status, int64(a.Status))
	}
	if len(delivery) == 0 {
		return nil
	}
	_, err := t.bulk(ctx, `INSERT INTO attempts (delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error)
		SELECT delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error FROM v WHERE true
		ON CONFLICT (delivery_id, number) DO NOTHING`,
		column{name: "delivery_id", text: delivery}, column{name: "number", ints: number},
		column{name: "id", text: id}, column{name: "started_at", ints: started},
		column{name: "latency_us", ints: latency}, column{name: "status", ints: status},
		column{name: "headers", text: headers}, column{name: "excerpt", text: excerpt},
		column{name: "error", text: failure})
	return err
}

func (t *tx) finish(ctx context.Context, outcomes []Outcome) error {
	n := len(outcomes)
	id, state := make([]string, n), make([]string, n)
	number, next := make([]int64, n), make([]int64, n)
	for i, o := range outcomes {
		id[i], state[i], number[i] = o.Attempt.DeliveryID, string(o.State), int64(o.Attempt.Number)
		if o.State == store.StatePending {
			next[i] = micros(o.NextAt)
		}
	}
	// A late outcome of an earlier try must not take back a later one's. The state
	// is hidden from PostgreSQL's planner, which in a young database would rather
	// read the whole index of what is pending than look each id up.
	_, err := t.bulk(ctx, `UPDATE deliveries SET state = v.state, next_at = v.next_at, due_at = v.next_at, lease_owner = '',
			attempts = CASE WHEN v.number > attempts THEN v.number ELSE attempts END, updated_at = v.updated_at
		FROM v WHERE deliveries.id = v.id AND deliveries.state || '' = 'pending' AND (v.number = 0 OR v.number > attempts)`,
		column{name: "id", text: id}, column{name: "state", text: state}, column{name: "number", ints: number},
		column{name: "next_at", ints: next}, column{name: "updated_at", ints: repeat(micros(t.db.now()), n)})
	if err != nil {
		return fmt.Errorf("write outcomes: %w", err)
	}
	return nil
}

func repeat(v int64, n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// noteFailing keeps for each subscription since when its tries fail without one
// that went well. An outcome that comes twice counts twice; the next one that
// goes well sets it right.
func (t *tx) noteFailing(ctx context.Context, outcomes []Outcome) error {
	tries := slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool {
		return o.Attempt.Number == 0 || o.SubscriptionID == ""
	})
	slices.SortStableFunc(tries, func(a, b Outcome) int { return a.Attempt.StartedAt.Compare(b.Attempt.StartedAt) })
	well := make(map[string]bool)       // had a success
	since := make(map[string]time.Time) // the first failure after the last success
	for _, o := range tries {
		switch _, failing := since[o.SubscriptionID]; {
		case o.State == store.StateDelivered:
			well[o.SubscriptionID] = true
			delete(since, o.SubscriptionID)
		case !failing:
			since[o.SubscriptionID] = o.Attempt.StartedAt
		}
	}
	if len(well) > 0 {
		ids := slices.Sorted(maps.Keys(well))
		if _, err := t.exec(ctx, `UPDATE subscriptions SET failing_from = 0 WHERE failing_from <> 0 AND `+t.db.in("id"), t.db.set(ids)); err != nil {
			return err
		}
	}
	if len(since) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(since))
	from := make([]int64, len(ids))
	for i, id := range ids {
		from[i] = micros(since[id])
	}
	_, err := t.bulk(ctx, `UPDATE subscriptions SET failing_from = v.since FROM v
		WHERE subscriptions.id = v.id AND subscriptions.failing_from = 0`,
		column{name: "id", text: ids}, column{name: "since", ints: from})
	return err
}
