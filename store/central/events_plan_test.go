package central

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// TestEventsSinceReadsOneAccount asks for the query plan of an account's events
// while another account has 5000: the database finds those of the account by an
// index, and passes over no event of another.
func TestEventsSinceReadsOneAccount(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		central := open(t, p)
		quiet := must(central.CreateAccount(ctx, store.Account{ID: "acc_quiet", Mode: store.ModeLive}))(t)
		busy := must(central.CreateAccount(ctx, store.Account{ID: "acc_busy", Mode: store.ModeLive}))(t)
		since := central.db.Now().Add(-time.Second)
		noError(t, addEvents(ctx, central, busy.ID, 5000))
		noError(t, addEvents(ctx, central, quiet.ID, 3))
		if p.kind == "postgres" {
			_ = must(central.db.Query(ctx, `ANALYZE events`))(t).Close()
		}
		plan := dbtest.Explain(t, central.db, eventsSince, quiet.ID, db.FirstID("evt", since), 200)
		if !strings.Contains(plan, "account") || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "SCAN") {
			t.Errorf("the plan reads events of other accounts:\n%s", plan)
		}
		got := must(central.EventsSince(ctx, quiet.ID, since, "", 2))(t)
		if len(got) != 2 {
			t.Fatalf("%d events, want the first 2", len(got))
		}
		rest := must(central.EventsSince(ctx, quiet.ID, since, got[1].ID, 2))(t)
		if len(rest) != 1 || slices.ContainsFunc(append(got, rest...), func(e store.Event) bool { return e.AccountID != quiet.ID }) {
			t.Errorf("events %+v, then %+v", got, rest)
		}
	})
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
