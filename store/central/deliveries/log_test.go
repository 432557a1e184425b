package deliveries

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// noBatch gathers nothing.
type noBatch struct{}

func (noBatch) Lock(context.Context, []string) error { return nil }
func (noBatch) Mark() (reset func())                 { return func() {} }
func (noBatch) Flush(context.Context) error          { return nil }
func (noBatch) Committed()                           {}

// openDB opens an empty database without the records of package central.
func openDB(t *testing.T, url string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{
		URL: url, Migrations: os.DirFS("../migrations"), NewBatch: func(*db.Tx) db.Batch { return noBatch{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestListsCanBeEnded asks for SQLite's plans of lists: each reads its page in the first
// step, which alone ends with its context.
func TestListsCanBeEnded(t *testing.T) {
	d := openDB(t, filepath.Join(t.TempDir(), "origin.db"))
	s := New(d, nil, slog.New(slog.DiscardHandler))
	for _, f := range []Filter{{}, {Target: "typo"}, {EventType: "none"}, {Refused: true}, {State: store.StateDead, Target: "typo"}} {
		l, err := s.listing(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.narrow(&l, ""); err != nil {
			t.Fatal(err)
		}
		plan := dbtest.Explain(t, d, l.query(), append(l.args, 51)...)
		if !strings.HasPrefix(plan, "MATERIALIZE page\n") {
			t.Errorf("%+v is read row by row:\n%s", f, plan)
		}
	}
}

// TestTimesBoundTheLog asks for SQLite's plans of an account's log, by time and of its second
// page: each reads no other events of a subscription, or what is pending alone.
func TestTimesBoundTheLog(t *testing.T) {
	d := openDB(t, filepath.Join(t.TempDir(), "origin.db"))
	addDeliveries(t, d, 1)
	at := time.Unix(2e9, 0)
	for state, index := range map[store.State]string{
		"":                   "sqlite_autoindex_deliveries_2 (subscription_id=? AND event_id",
		store.StateDelivered: "sqlite_autoindex_deliveries_2 (subscription_id=? AND event_id",
		store.StateDead:      "deliveries_dead (subscription_id=? AND event_id",
		store.StatePending:   "deliveries_queue (subscription_id=?)",
	} {
		for bounds, times := range map[string][2]time.Time{">? AND event_id<?)": {at.Add(-time.Hour), at}, "<?)": {}} {
			f := Filter{AccountID: "acc", State: state, Since: times[0], Until: times[1]}
			l, err := New(d, nil, slog.New(slog.DiscardHandler)).listing(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			cursor := ""
			if f.Until.IsZero() {
				cursor = db.Cursor(l.name, store.NewID("dlv", at))
			}
			if err := f.narrow(&l, cursor); err != nil {
				t.Fatal(err)
			}
			want := index
			if state != store.StatePending {
				want += bounds
			}
			if plan := dbtest.Explain(t, d, l.query(), append(l.args, 51)...); !strings.Contains(plan, want) {
				t.Errorf("%+v does not go by %s:\n%s", f, want, plan)
			}
		}
	}
}

// TestNextDeadGoesByIndex asks for the plans of the walk over subscriptions with dead
// deliveries: it reads no others.
func TestNextDeadGoesByIndex(t *testing.T) {
	for kind, url := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "origin.db") },
		"postgres": centraltest.Postgres,
	} {
		t.Run(kind, func(t *testing.T) {
			d := openDB(t, url(t))
			addDeliveries(t, d, 1000)
			if plan := dbtest.Explain(t, d, nextDead, "whs_5"); !strings.Contains(plan, "deliveries_dead") {
				t.Errorf("the plan reads more than the dead:\n%s", plan)
			}
		})
	}
}

// TestDeliveriesOfEventsAreFoundByTime asks for the plans of what looks for the deliveries of
// an event, while its account has 1000 subscriptions: those of its millisecond are read.
func TestDeliveriesOfEventsAreFoundByTime(t *testing.T) {
	for kind, url := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "origin.db") },
		"postgres": centraltest.Postgres,
	} {
		t.Run(kind, func(t *testing.T) {
			d := openDB(t, url(t))
			events := addDeliveries(t, d, 1000)
			l, err := New(d, nil, slog.New(slog.DiscardHandler)).listing(t.Context(), Filter{EventID: events[500]})
			if err != nil {
				t.Fatal(err)
			}
			plans := map[string]string{"the log of an event": dbtest.Explain(t, d, l.query(), append(l.args, 51)...)}
			if d.Postgres() {
				if err := d.WriteAlone(t.Context(), func(ctx context.Context, tx *db.Tx) error { // as pruning plans
					lines, err := tx.Strings(ctx, "EXPLAIN (ANALYZE) "+eventsAlone, "evt_", "evt_~", 1000)
					plans["pruning"] = strings.Join(lines, "\n")
					if err != nil {
						return err
					}
					lines, err = tx.Strings(ctx, "EXPLAIN (ANALYZE) "+orphans, tx.Set(events[500:501]))
					plans["erasing"] = strings.Join(lines, "\n")
					return err
				}); err != nil {
					t.Fatal(err)
				}
			} else {
				plans["pruning"] = dbtest.Explain(t, d, eventsAlone, "evt_", "evt_~", 1000)
			}
			for what, plan := range plans {
				byTime := strings.Contains(plan, "sqlite_autoindex_deliveries_1 (id>? AND id<?)") || strings.Contains(plan, "deliveries_pkey")
				if !byTime || strings.Contains(plan, "subscription_id=?") || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "Join Filter") {
					t.Errorf("%s reads more than a millisecond:\n%s", what, plan)
				}
			}
		})
	}
}

// addDeliveries adds n events of one account, a millisecond apart, with a subscription and a
// delivery for each, and returns the events' ids.
func addDeliveries(t *testing.T, d *db.DB, n int) (events []string) {
	t.Helper()
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if err := d.WriteAlone(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, mode, created_at) VALUES ('acc', 'a', 'live', 0)`); err != nil {
			return err
		}
		for i := range n {
			at, subscription := at.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("whs_", i)
			events = append(events, store.NewID("evt", at))
			if _, err := tx.Exec(ctx, `INSERT INTO subscriptions (id, account_id, key_id, environment, target_url, events, description, secret, created_at)
				VALUES (?, 'acc', 'key', 'live', 'https://a.example/', '[]', '', '', 0)`, subscription); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO events (id, account_id, type, created_at, silenced, body) VALUES (?, 'acc', 't', 0, 0, '{}')`, events[i]); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
				VALUES (?, ?, ?, 'delivered', 0, 0, 0, 0, '', 0, 0)`, store.NewID("dlv", at), events[i], subscription); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if d.Postgres() {
		rows, err := d.Query(t.Context(), `ANALYZE`)
		if err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
	return events
}
