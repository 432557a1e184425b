package central

import (
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	engine "partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/wasm/typeid"
)

func TestDeliveryLog(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 3)
		var events []string
		for range 9 {
			events = append([]string{q.fire(t).ID}, events...)
		}
		for i, c := range q.claim(t, 27) {
			q.record(t, []store.State{store.StateDead, store.StateDelivered}[i%2], 0, c)
		}
		seen, cursor := []string{}, ""
		for {
			items, next, err := q.Deliveries(ctx, deliveries.Filter{SubscriptionID: q.subs[1]}, store.Page{Limit: 2, Cursor: cursor})
			noError(t, err)
			for _, d := range items {
				seen = append(seen, d.EventID)
			}
			if cursor = next; next == "" {
				break
			}
			q.fire(t)
		}
		if !reflect.DeepEqual(seen, events) {
			t.Errorf("log of a subscription %v, want %v", seen, events)
		}
		total := 0
		for _, state := range []store.State{store.StateDead, store.StateDelivered} {
			for _, s := range q.subs {
				items, _, err := q.Deliveries(ctx, deliveries.Filter{SubscriptionID: s, State: state}, store.Page{})
				noError(t, err)
				for _, d := range items {
					if d.State != state {
						t.Errorf("asked for %s: %+v", state, d)
					}
				}
				total += len(items)
			}
		}
		if total != 27 {
			t.Errorf("%d ended, want 27", total)
		}
		var subs []string
		for cursor = ""; ; {
			items, next, err := q.Deliveries(ctx, deliveries.Filter{EventID: events[0]}, store.Page{Limit: 1, Cursor: cursor})
			noError(t, err)
			for _, d := range items {
				subs = append([]string{d.SubscriptionID}, subs...)
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(subs) != 3 {
			t.Errorf("log of an event: %v", subs)
		}
		items, _, err := q.Deliveries(ctx, deliveries.Filter{EventID: events[0], SubscriptionID: q.subs[2]}, store.Page{})
		if noError(t, err); len(items) != 1 {
			t.Errorf("of both: %+v", items)
		}
		_, _, err = q.Deliveries(ctx, deliveries.Filter{EventID: events[0], Target: "x"}, store.Page{})
		wantErr(t, err, store.ErrInvalid)
		_, _, err = q.Deliveries(ctx, deliveries.Filter{EventID: events[0], State: "lost"}, store.Page{})
		wantErr(t, err, store.ErrInvalid)
		for _, bad := range []string{"\x00", "nonsense", "whs_nonsense", engine.Cursor("deliveries of "+events[1], subs[0])} {
			_, _, err = q.Deliveries(ctx, deliveries.Filter{EventID: events[0]}, store.Page{Cursor: bad})
			wantErr(t, err, store.ErrInvalid)
		}
	})
}

// TestDeliveriesOfAll lists the log over all subscriptions, by each filter, and finds
// a delivery by the id of an attempt.
func TestDeliveriesOfAll(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		before := q.Now()
		for range 3 {
			q.fire(t)
		}
		claims := q.claim(t, 6)
		for i, c := range claims[:5] {
			q.record(t, []store.State{store.StateDead, store.StateDelivered}[i%2], 0, c)
		}
		first, err := q.Delivery(ctx, claims[0].ID)
		noError(t, err)
		count := func(f deliveries.Filter) int {
			t.Helper()
			n, last := 0, "z"
			for page := (store.Page{Limit: 2}); ; {
				items, next, err := q.Deliveries(ctx, f, page)
				noError(t, err)
				for _, d := range items {
					if n++; d.ID >= last {
						t.Errorf("%+v: %s comes after %s", f, d.ID, last)
					}
					last = d.ID
				}
				if page.Cursor = next; next == "" {
					return n
				}
			}
		}
		for _, c := range []struct {
			filter deliveries.Filter
			want   int
		}{
			{deliveries.Filter{}, 6},
			{deliveries.Filter{State: store.StateDead}, 3},
			{deliveries.Filter{State: store.StateDelivered}, 2},
			{deliveries.Filter{State: store.StatePending}, 1},
			{deliveries.Filter{AccountID: first.AccountID, State: store.StateDead}, 3},
			{deliveries.Filter{AccountID: newAccount(t, q.DB, store.ModeLive).ID}, 0},
			{deliveries.Filter{EventType: first.EventType, State: store.StateDead}, 3},
			{deliveries.Filter{EventType: store.EventGoalChanged}, 0},
			{deliveries.Filter{Target: "hooks.example"}, 6},
			{deliveries.Filter{Target: "HOOKS"}, 0},
			{deliveries.Filter{Target: "%"}, 0},
			{deliveries.Filter{Since: before.Add(-time.Second), Until: before.Add(time.Hour)}, 6},
			{deliveries.Filter{AccountID: first.AccountID, Since: before.Add(time.Second), Until: before.Add(2*time.Second + time.Millisecond)}, 4},
			{deliveries.Filter{AccountID: first.AccountID, Since: before.Add(time.Second + time.Millisecond)}, 4},
			{deliveries.Filter{AccountID: first.AccountID, Until: before.Add(2 * time.Second)}, 2},
			{deliveries.Filter{AccountID: first.AccountID, Since: before, State: store.StateDead}, 3},
			{deliveries.Filter{AccountID: first.AccountID, Since: before, State: store.StatePending}, 1},
			{deliveries.Filter{Since: before.Add(time.Hour)}, 0},
			{deliveries.Filter{Until: before.Add(-time.Second)}, 0},
			{deliveries.Filter{Refused: true}, 0},
		} {
			if got := count(c.filter); got != c.want {
				t.Errorf("%+v finds %d, want %d", c.filter, got, c.want)
			}
		}
		_, _, err = q.Deliveries(ctx, deliveries.Filter{AccountID: "acc_none"}, store.Page{})
		wantErr(t, err, store.ErrNotFound)

		made, _ := typeid.UnixMilli(first.ID)
		for what, id := range map[string]string{
			"an attempt": store.NewAttemptID(first.ID, time.Now()), "an earlier attempt": store.NewID("dlv", time.UnixMilli(made).Add(4*time.Minute)),
		} {
			noError(t, q.db.WriteAlone(ctx, func(ctx context.Context, t *engine.Tx) error {
				_, err := t.Exec(ctx, `UPDATE attempts SET id = ? WHERE delivery_id = ?`, id, first.ID)
				return err
			}))
			if found, err := q.FindDelivery(ctx, id); err != nil || found != first {
				t.Errorf("%s %s is of %+v, %v", what, id, found, err)
			}
		}
		if found, err := q.FindDelivery(ctx, first.ID); err != nil || found != first {
			t.Errorf("by its own id: %+v, %v", found, err)
		}
		for _, id := range []string{store.NewAttemptID(first.ID, time.Now()), "dlv_none", "", "\x00"} {
			_, err := q.FindDelivery(ctx, id)
			wantErr(t, err, store.ErrNotFound)
		}
	})
}

// TestUnknownDeliveryReadsLittle looks for ids while the log of an hour has 5000 attempts:
// no more than those of one millisecond and a thousand more are looked at.
func TestUnknownDeliveryReadsLittle(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		q := newQueued(t, p, 1)
		q.fire(t)
		first := q.claim(t, 1)[0]
		made, _ := typeid.UnixMilli(first.ID)
		at := time.UnixMilli(made)
		old := store.NewID("dlv", at.Add(20*time.Minute)) // as an earlier program made it
		add := func(n int, attempt, delivery string) {
			t.Helper()
			noError(t, q.db.WriteAlone(ctx, func(ctx context.Context, t *engine.Tx) error {
				for i := range n {
					of, id := delivery, attempt
					if of == "" {
						of = store.NewID("dlv", at.Add(time.Duration(i+1)*100*time.Millisecond))
						id = store.NewAttemptID(of, at)
					}
					if _, err := t.Exec(ctx, `INSERT INTO attempts (delivery_id, number, id, started_at, latency_us, status, headers, excerpt, error)
						VALUES (?, 1, ?, 1, 1, 200, '{}', '', '')`, of, id); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		add(1, old, first.ID)
		add(990, "", "")
		if found, err := q.FindDelivery(ctx, old); err != nil || found.ID != first.ID {
			t.Errorf("behind 990 others: %+v, %v", found, err)
		}
		add(4010, "", "")
		_, err := q.FindDelivery(ctx, old)
		wantErr(t, err, store.ErrNotFound)
		last := store.NewID("dlv", at.Add(time.Hour-time.Minute))
		_, err = q.FindDelivery(ctx, last)
		wantErr(t, err, store.ErrNotFound)
	})
}

// TestRefusedDeliveries finds what the guard refused, in whatever state it is,
// and only while that was the last try.
func TestRefusedDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		for range 5 {
			q.fire(t)
		}
		claims := q.claim(t, 5)
		refuse := func(c deliveries.Claim, number int, state store.State, text string) {
			t.Helper()
			o := q.outcome(c, state, time.Hour)
			o.Attempt.Number, o.Attempt.Status, o.Attempt.Error = number, 0, text
			noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{o}))
		}
		const refused = "refused by guard: host_not_public: 10.0.0.1:443"
		refuse(claims[0], 1, store.StateDead, refused)
		refuse(claims[1], 1, store.StatePending, refused)
		refuse(claims[2], 1, store.StatePending, refused)
		refuse(claims[2], 2, store.StateDead, "connection refused")
		refuse(claims[3], 1, store.StateDead, "an endpoint that says refused by guard: no")
		refuse(claims[4], 1, store.StatePending, refused)
		refuse(claims[4], 2, store.StateDelivered, "")
		list := func(f deliveries.Filter) (ids []string) {
			t.Helper()
			items, _, err := q.Deliveries(ctx, f, store.Page{})
			noError(t, err)
			return idsOf(items, func(d store.Delivery) string { return d.ID })
		}
		if got, want := list(deliveries.Filter{SubscriptionID: q.subs[0], Refused: true}), []string{claims[1].ID, claims[0].ID}; !reflect.DeepEqual(got, want) {
			t.Errorf("refused are %v, want %v", got, want)
		}
		if got := list(deliveries.Filter{SubscriptionID: q.subs[0], Refused: true, State: store.StateDead}); !reflect.DeepEqual(got, []string{claims[0].ID}) {
			t.Errorf("refused and dead are %v", got)
		}
		if got := list(deliveries.Filter{EventID: claims[1].EventID, Refused: true}); !reflect.DeepEqual(got, []string{claims[1].ID}) {
			t.Errorf("refused of the event are %v", got)
		}
	})
}

// TestBacklog: what waits is counted until its try has ended, and who is due longest
// says for how long, unless its subscription fails.
func TestBacklog(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		want := func(pending int, overdue time.Duration) {
			t.Helper()
			b, err := q.ReadBacklog(ctx)
			noError(t, err)
			if b.Pending != pending || b.Overdue != overdue {
				t.Errorf("backlog is %+v, want %d pending, the first due for %v", b, pending, overdue)
			}
		}
		want(0, 0)
		q.fire(t)
		want(2, 0)
		q.clock.at = q.clock.at.Add(40 * time.Second)
		want(2, 40*time.Second)
		claims := q.claim(t, 2)
		want(2, 40*time.Second) // though they are leased: they are not tried yet
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{q.outcome(claims[0], store.StateDelivered, 0), q.outcome(claims[1], store.StatePending, 5*time.Second)}))
		want(1, 0)
		q.clock.at = q.clock.at.Add(6 * time.Second)
		want(1, 0) // of a subscription that fails
		q.fire(t)
		q.clock.at = q.clock.at.Add(2 * time.Second)
		want(3, 2*time.Second)
		delete(q.held, claims[1].ID)
		q.record(t, store.StateDelivered, 0, q.claim(t, 1)...)
		want(1, 2*time.Second) // the subscription that failed does no more
	})
}

// TestBacklogOfOneThatFails: as much as is counted at most, waiting for the first subscription,
// which fails, does not hide that another's is late.
func TestBacklogOfOneThatFails(t *testing.T) {
	ctx := t.Context()
	q := newQueued(t, place{"sqlite", filepath.Join(t.TempDir(), "origin.db")}, 2)
	slices.Sort(q.subs)
	q.fire(t)
	noError(t, q.db.WriteAlone(ctx, func(ctx context.Context, tx *engine.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE subscriptions SET failing_from = 1 WHERE id = ?`, q.subs[0]); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `WITH RECURSIVE series(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < ?)
			INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
			SELECT 'dlv_' || i, 'evt_' || i, ?, 'pending', 0, 0, 1, 1, '', 1, 1 FROM series`, deliveries.BacklogMost, q.subs[0])
		return err
	}))
	q.clock.at = q.clock.at.Add(time.Minute)
	b, err := q.ReadBacklog(ctx)
	noError(t, err)
	if want := (deliveries.Backlog{Pending: deliveries.BacklogMost, Overdue: time.Minute}); b != want {
		t.Errorf("backlog is %+v, want %+v", b, want)
	}
}

func TestPruneDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 2)
		for range 5 {
			q.fire(t)
		}
		_, silent, err := q.AddContact(ctx, store.Contact{AccountID: q.account, ClientID: "c", Channel: "sms"})
		noError(t, err)
		claims := q.claim(t, 10)
		q.record(t, store.StateDelivered, 0, claims[:9]...)
		q.clock.at = q.clock.at.Add(time.Hour)
		cut := q.clock.at
		q.clock.at = q.clock.at.Add(time.Hour)
		young := q.fire(t)
		removed, slices, round := 0, 0, deliveries.PruneCursor{}
		for n := 1; n > 0; slices++ {
			n = must(q.PruneDeliveries(ctx, cut, 4, &round))(t)
			removed += n
		}
		if removed != 9+4+1 || slices < 4 { // deliveries, their events, the contact's event
			t.Errorf("removed %d in %d slices, want 14", removed, slices)
		}
		for i, c := range claims {
			_, err := q.Delivery(ctx, c.ID)
			if _, attempts := q.Attempts(ctx, c.ID); i < 9 {
				wantErr(t, err, store.ErrNotFound)
				wantErr(t, attempts, store.ErrNotFound)
			} else {
				noError(t, err) // still pending
			}
		}
		_, err = q.Event(ctx, silent.ID)
		wantErr(t, err, store.ErrNotFound)
		must(q.Event(ctx, claims[9].EventID))(t)
		must(q.Event(ctx, young.ID))(t)
	})
}

// TestPruneOneByOne removes deliveries and events one at a time, and says when nothing went.
func TestPruneOneByOne(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const events = 3
		q := newQueued(t, p, 1)
		for range events {
			q.fire(t)
		}
		q.record(t, store.StateDelivered, 0, q.claim(t, events)...)
		q.clock.at = q.clock.at.Add(time.Hour)
		var counts []int
		round := deliveries.PruneCursor{}
		for n := 1; n > 0; {
			n = must(q.PruneDeliveries(t.Context(), q.clock.at, 1, &round))(t)
			counts = append(counts, n)
		}
		// A delivery, then the next one and the event that the one before left alone.
		if want := []int{1, 2, 2, 1, 0}; !slices.Equal(counts, want) {
			t.Errorf("%v went, want %v", counts, want)
		}
		round = deliveries.PruneCursor{}
		if n := must(q.PruneDeliveries(t.Context(), q.clock.at, 9, &round))(t); n != 0 {
			t.Errorf("%d of none went", n)
		}
	})
}

// TestHostileAnswers keeps what an endpoint may send back.
func TestHostileAnswers(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := newQueued(t, p, 1)
		q.fire(t)
		o := q.outcome(q.claim(t, 1)[0], store.StateDead, 0)
		o.Attempt.Excerpt = "nul \x00, not text \xff\xfe" + strings.Repeat("é", 5000)
		o.Attempt.Error = "dial \x00"
		o.Attempt.Headers = map[string]string{"k\x00\xff": "v\x00\xff"}
		noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{o}))
		a := must(q.Attempts(ctx, o.Attempt.DeliveryID))(t)[0]
		if !strings.HasPrefix(a.Excerpt, "nul \uFFFD, not text \uFFFD") || len(a.Excerpt) > 4096+8 || a.Error != "dial \uFFFD" {
			t.Errorf("kept %.60q, %q", a.Excerpt, a.Error)
		}
		for excerpt, start := range map[string]string{
			"a\tb\r\nc\x1b[0m": "a\tb\r\nc\uFFFD[0m", strings.Repeat("\x01", 4096): "\uFFFD\uFFFD", strings.Repeat("\x01\xff", 2048): "\uFFFD\uFFFD",
			strings.Repeat("\u0080", 2048): "\uFFFD\uFFFD", strings.Repeat("\"", 4096): `""`,
		} {
			o.Attempt.Number, o.Attempt.Excerpt = o.Attempt.Number+1, excerpt
			noError(t, q.RecordOutcomes(ctx, []deliveries.Outcome{o}))
			all := must(q.Attempts(ctx, o.Attempt.DeliveryID))(t)
			kept := all[len(all)-1].Excerpt
			if shown := must(json.Marshal(kept))(t); !strings.HasPrefix(kept, start) || len(shown) > 2*4096+2 {
				t.Errorf("of %.20q is kept %.20q, which is %d bytes in JSON", excerpt, kept, len(shown))
			}
		}
		for i, bad := range []deliveries.Outcome{
			{State: "lost", Attempt: store.Attempt{DeliveryID: "dlv_x"}},
			{State: store.StatePending, Attempt: store.Attempt{DeliveryID: "dlv_x"}},
			{State: store.StateDead, Attempt: store.Attempt{DeliveryID: ""}},
			{State: store.StateDead, Attempt: store.Attempt{DeliveryID: "dlv_x", Number: 1}},
		} {
			if err := q.RecordOutcomes(ctx, []deliveries.Outcome{bad}); err == nil {
				t.Errorf("outcome %d was accepted", i)
			}
		}
	})
}
