package central

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
	"partneredge/store/central/deliveries"
)

// TestEventsAfterReadsOneAccount asks for the query plan of an account's events
// while another account has 5000: the database finds those of the account by an
// index, and passes over no event of another.
func TestEventsAfterReadsOneAccount(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		central := open(t, p)
		quiet := must(central.CreateAccount(ctx, store.Account{ID: "acc_quiet", Mode: store.ModeLive}))(t)
		busy := must(central.CreateAccount(ctx, store.Account{ID: "acc_busy", Mode: store.ModeLive}))(t)
		noError(t, addEvents(ctx, central, busy.ID, 5000))
		noError(t, addEvents(ctx, central, quiet.ID, 3))
		if p.kind == "postgres" {
			_ = must(central.db.Query(ctx, `ANALYZE events`))(t).Close()
		}
		plan := dbtest.Explain(t, central.db, eventsAfter, quiet.ID, 0, 200)
		if !strings.Contains(plan, "account") || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "SCAN") {
			t.Errorf("the plan reads events of other accounts:\n%s", plan)
		}
		got, position, err := central.EventsAfter(ctx, quiet.ID, 0, 2)
		if noError(t, err); len(got) != 2 {
			t.Fatalf("%d events, want the first 2", len(got))
		}
		rest, position, err := central.EventsAfter(ctx, quiet.ID, position, 2)
		noError(t, err)
		if len(rest) != 1 || slices.ContainsFunc(append(got, rest...), func(e store.Event) bool { return e.AccountID != quiet.ID }) {
			t.Errorf("events %+v, then %+v", got, rest)
		}
		if none, same, err := central.EventsAfter(ctx, quiet.ID, position, 2); len(none) != 0 || same != position || err != nil {
			t.Errorf("behind the last are %+v, at %d, %v", none, same, err)
		}
	})
}

// TestEventsAfterMissNone has two origins with clocks an hour apart write events of one
// account, while a reader goes from position to position: it sees each once.
func TestEventsAfterMissNone(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		behind := func() time.Time { return time.Now().Add(-time.Hour) }
		dbs := []*DB{open(t, p), openWith(t, p, Config{Now: behind})}
		account := newAccount(t, dbs[0], store.ModeLive).ID
		const callers, contacts = 8, 20
		written := make(chan struct{})
		go func() {
			defer close(written)
			var n atomic.Int64
			inParallel(callers, func() {
				for range contacts {
					if _, _, err := dbs[n.Add(1)%2].AddContact(ctx, store.Contact{AccountID: account, ClientID: "c", Channel: "sms"}); err != nil {
						t.Error(err)
					}
				}
			})
		}()
		seen, at := map[string]bool{}, int64(0)
		for last := false; ; {
			select {
			case <-written:
				last = true
			default:
			}
			events, position, err := dbs[0].EventsAfter(ctx, account, at, 7)
			noError(t, err)
			for _, e := range events {
				if seen[e.ID] {
					t.Errorf("%s comes twice", e.ID)
				}
				seen[e.ID] = true
			}
			if at = position; last && len(events) == 0 {
				break
			}
		}
		if len(seen) != callers*contacts {
			t.Errorf("%d events are seen of %d", len(seen), callers*contacts)
		}
	})
}

// TestEventPositions finds the positions of events by their identifiers and by times.
func TestEventPositions(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		now := time.Date(2026, 7, 8, 9, 0, 0, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		account, other := newAccount(t, db, store.ModeLive).ID, newAccount(t, db, store.ModeLive).ID
		for name, at := range map[string]int64{
			"newest": must(db.NewestEventPosition(ctx, account))(t), "before now": must(db.EventPositionBefore(ctx, account, now))(t),
		} {
			if at != 0 {
				t.Errorf("without events the position %s is %d", name, at)
			}
		}
		began := now
		var positions []int64
		for range 3 {
			_, e, err := db.AddContact(ctx, store.Contact{AccountID: account, ClientID: "c", Channel: "sms"})
			noError(t, err)
			_, _, err = db.AddContact(ctx, store.Contact{AccountID: other, ClientID: "c", Channel: "sms"})
			noError(t, err)
			positions = append(positions, must(db.EventPosition(ctx, account, e.ID))(t))
			_, err = db.EventPosition(ctx, other, e.ID)
			wantErr(t, err, store.ErrNotFound)
			now = now.Add(time.Hour)
		}
		for i, want := range []int64{positions[0] - 1, positions[1] - 1, positions[2] - 1, positions[2], positions[2]} {
			if at := must(db.EventPositionBefore(ctx, account, began.Add(time.Duration(i)*time.Hour)))(t); at != want {
				t.Errorf("before %d hours is position %d, want %d", i, at, want)
			}
		}
		if at := must(db.NewestEventPosition(ctx, account))(t); at != positions[2] {
			t.Errorf("the newest position is %d, want %d", at, positions[2])
		}
		// An event of a clock that was put back comes after the earlier ones.
		now = began.Add(-24 * time.Hour)
		_, _, err := db.AddContact(ctx, store.Contact{AccountID: account, ClientID: "c", Channel: "sms"})
		noError(t, err)
		if at := must(db.EventPositionBefore(ctx, account, began.Add(time.Hour)))(t); at != positions[1]-1 {
			t.Errorf("with the clock put back, before the second is position %d, want %d", at, positions[1]-1)
		}
	})
}

// TestEventPositionBeforeReadsWhatIsNewer asks for the query plan of a position by its time, of
// an account with 5000 earlier events.
func TestEventPositionBeforeReadsWhatIsNewer(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 7, 8, 9, 0, 0, 0, time.UTC)
		central := openWith(t, p, Config{Now: func() time.Time { return now }})
		account := newAccount(t, central, store.ModeLive).ID
		noError(t, addEvents(ctx, central, account, 5000))
		now = now.Add(time.Hour)
		noError(t, addEvents(ctx, central, account, 3))
		index := "(id>?)"
		if p.kind == "postgres" {
			_ = must(central.db.Query(ctx, `ANALYZE events`))(t).Close()
			index = "(id >= "
		}
		plan := dbtest.Explain(t, central.db, central.eventPositionBefore(), account, db.FirstID("evt", now), account)
		if !strings.Contains(plan, index) || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "SCAN events") {
			t.Errorf("the plan reads earlier events:\n%s", plan)
		}
	})
}

// TestEventPositionsAreNotUsedAgain drops an account's newest events by their age, and those of
// another account by its erasure: the next event comes behind all positions.
func TestEventPositionsAreNotUsedAgain(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 7, 8, 9, 0, 0, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		account, other := newAccount(t, db, store.ModeLive).ID, newAccount(t, db, store.ModeLive).ID
		add := func(to string) string {
			_, e, err := db.AddContact(ctx, store.Contact{AccountID: to, ClientID: "c", Channel: "sms"})
			noError(t, err)
			return e.ID
		}
		position := int64(0)
		next := func() {
			t.Helper()
			id := add(account)
			events, last, err := db.EventsAfter(ctx, account, position, 10)
			if noError(t, err); len(events) != 1 || events[0].ID != id {
				t.Errorf("behind position %d are %+v, want %s", position, events, id)
			}
			position = last
		}
		for range 3 {
			next()
		}
		now = now.Add(48 * time.Hour)
		add(other)
		if n := must(db.PruneDeliveries(ctx, now.Add(-time.Hour), 10, &deliveries.PruneCursor{}))(t); n != 3 {
			t.Fatalf("%d events are dropped, want 3", n)
		}
		must(db.EraseAccount(ctx, other))(t)
		next()
	})
}

// TestEventsAreReadWhileTheirIndexIsMade has a transaction that has read events stay open
// while the index of their order is made.
func TestEventsAreReadWhileTheirIndexIsMade(t *testing.T) {
	p := place{"postgres", centraltest.Postgres(t)}
	noError(t, must(db.Open(t.Context(), db.Config{URL: p.url, Migrations: migrationsBefore(t, "0026")}))(t).Close())
	reader := must(p.another(t).BeginTx(t.Context(), nil))(t)
	defer func() { noError(t, reader.Rollback()) }()
	var n int
	noError(t, reader.QueryRowContext(t.Context(), `SELECT count(*) FROM events`).Scan(&n))
	d := open(t, p)
	var index string
	noError(t, d.db.QueryRow(t.Context(), `SELECT indexname FROM pg_indexes WHERE tablename = 'events' AND indexname = 'events_in_order'
		AND schemaname = current_schema()`).Scan(&index))
}

// TestEventsOfBeforeTheirOrder migrates a database with events that an earlier version has
// written: a stream goes on from one of the last hour.
func TestEventsOfBeforeTheirOrder(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		old := must(db.Open(ctx, db.Config{URL: p.url, Migrations: migrationsBefore(t, "0024")}))(t)
		now := time.Now()
		var ids []string
		for _, age := range []time.Duration{48 * time.Hour, 30 * time.Minute, 20 * time.Minute, time.Minute} {
			ids = append(ids, store.NewID("evt", now.Add(-age)))
		}
		noError(t, old.Close())
		earlier := p.another(t)
		_, err := earlier.ExecContext(ctx, `INSERT INTO accounts (id, name, mode, created_at) VALUES ('acc_1', 'A', 'setup', 1)`)
		noError(t, err)
		_, err = earlier.ExecContext(ctx, `INSERT INTO agents (id, account_id, email, full_name, joined_at) VALUES ('agt_1', 'acc_1', 'e', 'n', 1)`)
		noError(t, err)
		for _, id := range ids {
			_, err := earlier.ExecContext(ctx, `INSERT INTO events (id, account_id, type, created_at, silenced, body) VALUES ($1, 'acc_1', 't', 1, 1, '{}')`, id)
			noError(t, err)
		}
		d := open(t, p)
		_, e, err := d.AddContact(ctx, store.Contact{AccountID: "acc_1", ClientID: "c", Channel: "sms"})
		noError(t, err)
		at := must(d.EventPosition(ctx, "acc_1", ids[1]))(t)
		events, _, err := d.EventsAfter(ctx, "acc_1", at, 10)
		noError(t, err)
		var got []string
		for _, e := range events {
			got = append(got, e.ID)
		}
		if want := []string{ids[2], ids[3], e.ID}; !slices.Equal(got, want) {
			t.Errorf("behind %s are %v, want %v", ids[1], got, want)
		}
		if at := must(d.EventPosition(ctx, "acc_1", ids[0]))(t); at != 0 && p.kind == "postgres" {
			t.Errorf("the position of an event without a number is %d", at)
		}
		erased := must(d.EraseAccount(ctx, "acc_1"))(t)
		if erased["events"] != int64(len(ids)+1) {
			t.Errorf("erased are %v", erased)
		}
	})
}

// eventsOf lists the events of an account.
func eventsOf(t *testing.T, d *DB, account string) []store.Event {
	t.Helper()
	events, _, err := d.EventsAfter(t.Context(), account, 0, 1000)
	noError(t, err)
	return events
}

// addEvents adds n events to an account that no write of the account has made.
func addEvents(ctx context.Context, central *DB, account string, n int) error {
	return central.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		var events []*store.Event
		for i := range n {
			events = append(events, &store.Event{
				ID: store.NewID("evt", t.Now()), AccountID: account, Type: store.EventSentinelFired, CreatedAt: t.Now(),
				Body: fmt.Appendf(nil, `{"n":%d}`, i),
			})
		}
		return insertEvents.Run(ctx, t, events)
	})
}
