package central

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// TestNothingReturnsDuringAnErasure has one origin delete a lead, then its account, while
// another keeps a lead of it and puts one into the quarantine: nothing of either is left.
func TestNothingReturnsDuringAnErasure(t *testing.T) {
	for name, erase := range map[string]func(*DB, store.Lead) error{
		"a lead": func(d *DB, l store.Lead) error {
			_, err := d.Bury(t.Context(), store.Tombstone{ID: l.ID})
			return err
		},
		"an account": func(d *DB, l store.Lead) error {
			_, err := d.EraseAccount(t.Context(), l.AccountID)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := t.Context(), place{"postgres", centraltest.Postgres(t)}
			eraser, adder := open(t, p), open(t, p)
			l := leadFor(newAccount(t, eraser, store.ModeSetup).ID)
			unread := ReadLead("lead_unread", fmt.Appendf(nil, `{"account_id":%q,"email":1}`, l.AccountID))

			// Until this ends, the lead is written and not committed.
			holding := must(p.another(t).BeginTx(ctx, nil))(t)
			defer func() { _ = holding.Rollback() }()
			_, err := holding.ExecContext(ctx, `LOCK TABLE quarantine IN SHARE MODE`)
			noError(t, err)
			added, erased := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := adder.AddLeads(ctx, "node_1", append(offered(l), unread))
				added <- err
			}()
			waitForLocks(t, eraser, 1, nil)
			go func() { erased <- erase(eraser, l) }()
			waitForLocks(t, eraser, 2, erased)
			noError(t, holding.Rollback())
			noError(t, <-added)
			noError(t, <-erased)

			_, err = eraser.Lead(ctx, l.ID)
			wantErr(t, err, store.ErrNotFound)
			var left, quarantined int
			noError(t, eraser.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM quarantine)`).Scan(&left, &quarantined))
			if want := name == "a lead"; (left == 1) != want || (quarantined == 1) != want {
				t.Errorf("%d accounts and %d quarantined leads are left", left, quarantined)
			}
		})
	}
}

// TestEraseWhileATryEnds erases the deliveries of an account while the outcome of a try is
// recorded, each with a part of it done when the other begins: no attempt is left.
func TestEraseWhileATryEnds(t *testing.T) {
	for _, recordsFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("recorded first %t", recordsFirst), func(t *testing.T) {
			ctx, p := t.Context(), place{"postgres", centraltest.Postgres(t)}
			q := newQueued(t, p, 1)
			q.fire(t)
			late := q.outcome(q.claim(t, 1)[0], store.StateDelivered, 0)
			noError(t, q.endAccount(ctx, q.account))

			both := []func() error{
				func() error { return q.RecordOutcomes(ctx, []deliveries.Outcome{late}) },
				func() error {
					return q.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
						_, err := ofAccount[0].eraseSome(ctx, t, q.account)
						return err
					})
				},
			}
			if !recordsFirst {
				slices.Reverse(both)
			}
			// Until this ends, the attempts are written or erased, and their deliveries not.
			holding := must(p.another(t).BeginTx(ctx, nil))(t)
			defer func() { _ = holding.Rollback() }()
			_, err := holding.ExecContext(ctx, `LOCK TABLE deliveries IN SHARE MODE`)
			noError(t, err)
			ended := make(chan error, len(both))
			for i, do := range both {
				go func() { ended <- do() }()
				waitForLocks(t, q.DB, i+1, ended)
			}
			noError(t, holding.Rollback())
			for range both {
				noError(t, <-ended)
			}
			var deliveries, attempts int
			noError(t, q.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM deliveries), (SELECT count(*) FROM attempts)`).Scan(&deliveries, &attempts))
			if deliveries != 0 || attempts != 0 {
				t.Errorf("%d deliveries and %d attempts are left", deliveries, attempts)
			}
		})
	}
}

// waitForLocks waits until n transactions of a test wait for locks, or one of them has
// ended. Those of other tests, which run beside it in schemas of their own, do not count.
func waitForLocks(t *testing.T, d *DB, n int, ended chan error) {
	t.Helper()
	for tick := time.NewTicker(10 * time.Millisecond); len(ended) == 0; <-tick.C {
		var found int
		noError(t, d.db.QueryRow(t.Context(), `SELECT count(DISTINCT waits.pid) FROM pg_locks waits
			JOIN pg_locks has USING (pid) JOIN pg_class c ON c.oid IN (has.relation, has.objid)
			WHERE NOT waits.granted AND c.relnamespace = current_schema()::regnamespace`).Scan(&found))
		if found >= n {
			return
		}
	}
}

// TestReferredRecordsAreNoneMissing deletes an account that a key refers to.
func TestReferredRecordsAreNoneMissing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		a := newAccount(t, d, store.ModeSetup)
		must(d.CreateKey(t.Context(), keyFor(a.ID)))(t)
		err := d.db.WriteAlone(t.Context(), func(ctx context.Context, t *db.Tx) error {
			_, err := t.Exec(ctx, `DELETE FROM accounts WHERE id = ?`, a.ID)
			return err
		})
		wantErr(t, db.Fail("delete", err), store.ErrConflict)
	})
}
