package central

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/centraltest"
)

// TestBuriedAccountKeepsItsTime: an account that a backup has brought back keeps the time at
// which it was deleted, as one does that is not there.
func TestBuriedAccountKeepsItsTime(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		for _, id := range []string{newAccount(t, d, store.ModeLive).ID, "acc_nowhere"} {
			want := store.Tombstone{ID: id, DeletedAt: time.Unix(1e9, 0).UTC()}
			if got := must(d.Bury(t.Context(), want))(t); got != want {
				t.Errorf("buried %+v, want %+v", got, want)
			}
		}
	})
}

// TestBuriedAccountLeavesTheQuarantine buries an account that a restored backup does not have,
// of which a node has offered a lead since: its body goes, and the audit log counts it.
func TestBuriedAccountLeavesTheQuarantine(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		for id, want := range map[string]string{"acc_gone": `{"quarantine":1}`, "acc_nowhere": `{"kept":false}`} {
			if id == "acc_gone" {
				done := must(d.AddLeads(ctx, "node_1", offered(leadFor(id))))(t)
				if len(done.Quarantined) != 1 {
					t.Fatalf("a lead of an unknown account: %+v", done)
				}
			}
			_, err := d.Bury(ctx, store.Tombstone{ID: id})
			noError(t, err)
			if left := must(d.CountQuarantined(ctx))(t); left != 0 {
				t.Errorf("%d leads of a buried account are left in the quarantine", left)
			}
			log, _, err := d.Audits(ctx, AuditFilter{Target: id}, store.Page{})
			noError(t, err)
			if len(log) != 1 || strings.ReplaceAll(string(log[0].After), " ", "") != want {
				t.Errorf("the audit log of %s: %+v, want %s", id, log, want)
			}
		}
	})
}

// TestBuryEmptiesTheLogOnce: an account that is there is erased and buried, and SQLite's log is
// emptied for both. Each time, writes wait for those who read from it.
func TestBuryEmptiesTheLogOnce(t *testing.T) {
	var log bytes.Buffer
	d := openWith(t, place{"sqlite", filepath.Join(t.TempDir(), "origin.db")}, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := newAccount(t, d, store.ModeLive)
	reading := must(d.db.Query(t.Context(), `SELECT id FROM accounts`))(t)
	if !reading.Next() {
		t.Fatal(reading.Err())
	}
	must(d.Bury(t.Context(), store.Tombstone{ID: a.ID}))(t)
	noError(t, reading.Close())
	if tried := strings.Count(log.String(), "stays in the database's log for now"); tried != 1 {
		t.Errorf("the log was to be emptied %d times, want once:\n%s", tried, &log)
	}
}

// TestEachTombstoneIsApplied deletes an account, and leads whose ids differ in form. Each row of
// the list deletes its lead again from a database as it was before. What is not certain to have
// been a lead is refused.
func TestEachTombstoneIsApplied(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d, ctx := open(t, p), t.Context()
		a, b := newAccount(t, d, store.ModeLive), newAccount(t, d, store.ModeLive)
		leads := func() []store.Lead {
			t.Helper()
			items, _, err := d.Leads(ctx, b.ID, store.Page{})
			noError(t, err)
			return items
		}
		tombstones := func() []store.Tombstone {
			t.Helper()
			items, _, err := d.Tombstones(ctx, store.Page{})
			noError(t, err)
			return items
		}
		add := func(ids ...string) {
			for _, id := range ids {
				l := leadFor(b.ID)
				l.ID = id
				if done := must(d.AddLeads(ctx, "node_1", offered(l)))(t); len(done.Committed) != 1 {
					t.Fatalf("%q: %+v", id, done)
				}
			}
		}
		ids := []string{"lead_old", "crm-42", strings.Repeat("x", 200), " a\tb "}
		add(ids...)
		for _, id := range ids {
			_ = must(d.DeleteLead(ctx, id))(t)
		}
		_ = must(d.EraseAccount(ctx, a.ID))(t)
		list := tombstones()
		if len(list) != 5 {
			t.Fatalf("tombstones %+v, want of four leads and an account", list)
		}
		noError(t, d.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `DELETE FROM tombstones`)
			return err
		}))
		add(ids...)
		for _, want := range list {
			if got, err := d.Bury(ctx, want); err != nil || got != want {
				t.Errorf("buried %+v, %v, want %+v", got, err, want)
			}
		}
		if left := leads(); len(left) != 0 {
			t.Errorf("came back: %+v", left)
		}

		// Without a time: one that is buried already, one that is kept, and one that never was.
		_ = must(d.Bury(ctx, store.Tombstone{ID: "crm-42"}))(t)
		add("crm-43")
		_ = must(d.Bury(ctx, store.Tombstone{ID: "crm-43"}))(t)
		_, err := d.Bury(ctx, store.Tombstone{ID: "crm-44"})
		wantErr(t, err, store.ErrInvalid)
		if n := len(tombstones()); n != 6 || len(leads()) != 0 {
			t.Errorf("%d tombstones, want 6, and the leads %+v", n, leads())
		}
		// With the time of a list, where the database does not have the lead.
		_ = must(d.Bury(ctx, store.Tombstone{ID: "crm-44", DeletedAt: time.Unix(1e9, 0)}))(t)
	})
}

// TestReleasedLeadStaysDeleted deletes leads that were released from the quarantine under another
// id or to another account, by themselves or with that account. The tombstones are applied to
// a copy of before: there the refused lead waits, was released too, or has yet to come from its
// node. None of the person is there afterwards, also once the node has handed the lead over again.
func TestReleasedLeadStaysDeleted(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		at := place{"sqlite", filepath.Join(t.TempDir(), "copy.db")}
		if p.kind == "postgres" {
			at = place{"postgres", centraltest.Postgres(t)}
		}
		d, before, ctx := open(t, p), open(t, at), t.Context()
		handOver := func(d *DB, id, of string) Handover {
			t.Helper()
			l := leadFor(of)
			l.ID, l.CapturedAt, l.CreatedAt = id, time.Unix(1e9, 0).UTC(), time.Unix(1e9, 0).UTC()
			return must(d.AddLeads(ctx, "node_1", offered(l)))(t)
		}
		release := func(d *DB, id, of string) {
			t.Helper()
			l := leadFor(of)
			l.ID = id
			_ = must(d.ReleaseLead(ctx, waiting(t, d)[0].ID, l))(t)
		}
		left := func(d *DB, account string) (n int) {
			t.Helper()
			noError(t, d.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM quarantine) + (SELECT count(*) FROM leads WHERE account_id = ?)`, account).Scan(&n))
			return n
		}
		for _, copied := range []string{"waiting", "released", "not there"} {
			for _, whole := range []bool{false, true} {
				a := newAccount(t, d, store.ModeLive)
				_ = must(before.CreateAccount(ctx, a))(t)
				name := fmt.Sprintf("%s, the whole account: %v", copied, whole)
				first, as := "lead_of_"+a.ID, "crm-"+a.ID
				if whole {
					as = first
				}
				if len(handOver(d, first, "acc_nobody").Quarantined) != 1 {
					t.Fatal("the lead of an unknown account is not refused")
				}
				release(d, as, a.ID)
				if copied != "not there" {
					handOver(before, first, "acc_nobody")
				}
				if copied == "released" {
					release(before, as, a.ID)
				}
				if n := must(d.ForgetSettledLeads(ctx, time.Now().Add(time.Hour), 10))(t); n != 0 {
					t.Errorf("%s: what the lead was released from is forgotten", name)
				}
				if whole {
					_ = must(d.EraseAccount(ctx, a.ID))(t)
				} else {
					_ = must(d.DeleteLead(ctx, as))(t)
				}
				list, _, err := d.Tombstones(ctx, store.Page{})
				noError(t, err)
				for _, buried := range list {
					_ = must(before.Bury(ctx, buried))(t)
				}
				for where, d := range map[string]*DB{"the origin": d, "the copy": before} {
					if n := left(d, a.ID); n != 0 {
						t.Errorf("%s: %d rows are left at %s", name, n, where)
					}
					if done := handOver(d, first, "acc_nobody"); len(done.Committed) != 1 || left(d, a.ID) != 0 {
						t.Errorf("%s: handed over again to %s: %+v, and %d rows are there", name, where, done, left(d, a.ID))
					}
				}
				// Another person's lead, which has the first id, is none of this.
				if done := handOver(before, first, newAccount(t, before, store.ModeLive).ID); len(done.Committed) != 1 || must(before.Lead(ctx, first))(t).ID != first {
					t.Errorf("%s: another lead: %+v", name, done)
				}
			}
		}
	})
}
