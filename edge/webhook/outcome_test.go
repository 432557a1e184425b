package webhook

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"pgregory.net/rapid"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// refusingStore is a Store that calls some outcomes invalid, and is away for some of the calls.
type refusingStore struct {
	Store
	bad  map[string]bool
	away func() bool
	kept map[string]bool
}

func (r *refusingStore) RecordOutcomes(_ context.Context, outcomes []deliveries.Outcome) error {
	for _, o := range outcomes {
		if r.bad[o.Attempt.DeliveryID] {
			return store.ErrInvalid
		}
	}
	if r.away() {
		return errors.New("the database is away")
	}
	for _, o := range outcomes {
		r.kept[o.Attempt.DeliveryID] = true
	}
	return nil
}

// TestOutcomesAreForgottenOnce: whichever outcomes are invalid, and whenever the database is
// away meanwhile, all others are written, and what is held of each is given back once.
func TestOutcomesAreForgottenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &refusingStore{bad: map[string]bool{}, kept: map[string]bool{}}
		r.away = func() bool { return rapid.IntRange(0, 3).Draw(t, "away") == 3 }
		s := &Sender{c: Config{Store: r, Log: slog.New(slog.DiscardHandler)}, held: map[string]struct{}{}, stopping: true}
		q := &queue{id: "whs_1"}
		var left []outcome
		for i := range rapid.IntRange(1, 20).Draw(t, "outcomes") {
			id := string(rune('a' + i))
			r.bad[id] = rapid.Bool().Draw(t, "bad")
			s.held[id] = struct{}{}
			s.keep(q, 1, i)
			left = append(left, outcome{deliveries.Outcome{Attempt: store.Attempt{DeliveryID: id}}, q, i})
		}
		for len(left) > 0 {
			left, _ = s.write(t.Context(), left)
		}
		for id, bad := range r.bad {
			if r.kept[id] == bad {
				t.Errorf("%s is kept: %v, though invalid: %v", id, r.kept[id], bad)
			}
		}
		if q.held != 0 || s.heldBytes != 0 || s.untrusted != 0 || len(s.held) != 0 {
			t.Errorf("held are still %d, %d bytes, %d untrusted, %v", q.held, s.heldBytes, s.untrusted, s.held)
		}
	})
}
