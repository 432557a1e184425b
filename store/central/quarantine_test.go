package central

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/fleet"
	"partneredge/store/grant"
)

// waiting lists the quarantine.
func waiting(t *testing.T, db *DB) []store.QuarantinedLead {
	t.Helper()
	items, _, err := db.QuarantinedLeads(t.Context(), store.Span{}, store.Page{Limit: 200})
	noError(t, err)
	return items
}

// TestRefusedLeadsAreQuarantined: whatever a node hands over is a lead or is in
// the quarantine afterwards, byte for byte and once.
func TestRefusedLeadsAreQuarantined(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		good := leadFor(a.ID)
		body := func(id, rest string) []byte {
			return fmt.Appendf(nil, `{"id":%q,"account_id":%q,"key_id":"key_x","environment":"live","first_name":"Ana","email":"a@example.com","consent_status":"none"%s}`, id, a.ID, rest)
		}
		bad := [][]byte{
			body("lead_text", `,"captured_at":"yesterday"`), body("lead_1900", `,"captured_at":"1900-01-01T00:00:00Z"`),
			body("lead_type", `,"phone":7`), body("", ``), body("lead_\x00", ``), body(strings.Repeat("x", 201), ``),
			[]byte(`null`), []byte(`[1]`), []byte(`{"id":`), {}, {0, 0xff}, bytes.Repeat([]byte("x"), 1<<20),
		}
		for range 2 {
			var leads []OfferedLead
			for _, b := range bad {
				leads = append(leads, ReadLead("", b))
			}
			done := must(db.AddLeads(t.Context(), "node_x", append(leads, offered(good)...)))(t)
			if len(done.Committed) != 1 || done.Committed[0] != good.ID || len(done.Rejected) != 0 {
				t.Fatalf("%v", done)
			}
		}
		items := waiting(t, db)
		if len(items) != len(bad) {
			t.Fatalf("%d wait, want %d", len(items), len(bad))
		}
		for i, item := range items {
			want := bad[len(bad)-1-i]
			q := must(db.QuarantinedLead(t.Context(), item.ID))(t)
			if !bytes.Equal(q.Body, want) || q.Size != int64(len(want)) || q.NodeID != "node_x" || q.Reason == "" || q.ReceivedAt.IsZero() || q.State != store.QuarantineWaiting {
				t.Errorf("%.80q: %.300v", want, q)
			}
			if item.Body != nil {
				t.Error("a list holds bodies")
			}
		}
		first := items[len(items)-1]
		if first.LeadID != "lead_text" || first.AccountID != a.ID || first.KeyID != "key_x" || !strings.Contains(first.Reason, "captured_at") || strings.Contains(first.Reason, "yesterday") {
			t.Errorf("%+v", first)
		}
	})
}

// TestLeadsWhileTheClockIsBehind: a lead that is from the future since the clock was put back
// stays on its node, and is kept once the clock is right. One from further ahead waits in the
// quarantine, as those do of which nothing says that the clock was put back.
func TestLeadsWhileTheClockIsBehind(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx, right := t.Context(), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		clock := &fakeClock{right}
		d := openWith(t, p, Config{Now: clock.now})
		a := newAccount(t, d, store.ModeLive)
		k := keyFor(a.ID)
		k.Scopes = []string{store.ScopeWriteLeads}
		k = must(d.CreateKey(ctx, k))(t)
		n := must(d.AddNode(ctx, store.Node{Name: "n", Region: "r", PublicKey: "pub"}))(t)
		must(d.SeenNodes(ctx, []fleet.NodeSeen{{ID: n.ID, Version: "1", At: right}}))(t)
		lead := func(at time.Time) OfferedLead {
			l := leadFor(a.ID)
			l.KeyID, l.CreatedAt = k.ID, at
			return OfferedLead{AcceptedLead: store.AcceptedLead{Lead: l, KeyHash: k.Hash[:]}, Body: []byte("{}")}
		}
		good, ahead, strange := lead(right), lead(right.Add(grant.Wrong+time.Minute)), lead(right)
		clock.at = right.Add(-2 * day)
		done := must(d.AddLeads(ctx, n.ID, []OfferedLead{good, ahead}))(t)
		if done.Rejected[good.ID] != errClockBack.Error() || len(done.Committed) != 0 || len(done.Quarantined) != 1 || done.Refusals[grant.WrongTime] != 1 {
			t.Errorf("two days back: %+v", done)
		}
		if done := must(d.AddLeads(ctx, "node_x", []OfferedLead{strange}))(t); len(done.Quarantined) != 1 {
			t.Errorf("of a node that never spoke: %+v", done)
		}
		clock.at = right.Add(time.Minute)
		if done := must(d.AddLeads(ctx, n.ID, []OfferedLead{good}))(t); len(done.Committed) != 1 || len(done.Rejected) != 0 {
			t.Errorf("by the right clock: %+v", done)
		}
		if leads, _, err := d.Leads(ctx, a.ID, store.Page{}); err != nil || len(leads) != 1 || leads[0].ID != good.ID {
			t.Errorf("the account has %v, %v", leads, err)
		}
		if waits := waiting(t, d); len(waits) != 2 || waits[1].LeadID != ahead.ID || waits[0].LeadID != strange.ID {
			t.Errorf("in the quarantine is %+v", waits)
		}
	})
}

// TestReleaseAndDiscard: a mended lead is kept under its id, once; what is settled
// waits no more, even if a node hands it over again.
func TestReleaseAndDiscard(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_x", Name: "Kim", Role: store.RoleOperator})
		a, b := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		lost, unwanted := leadFor("acc_nobody"), leadFor("acc_nobody")
		handOver := func() { must(db.AddLeads(ctx, "node_x", offered(lost, unwanted)))(t) }
		handOver()
		items := waiting(t, db)
		if len(items) != 2 || items[1].LeadID != lost.ID {
			t.Fatalf("%+v", items)
		}
		if n := must(db.CountQuarantined(ctx))(t); n != 2 {
			t.Errorf("%d counted", n)
		}
		_, err := db.ReleaseLead(ctx, items[1].ID, lost)
		wantErr(t, err, store.ErrInvalid) // there is still no such account
		mended := lost
		mended.AccountID = a.ID
		forced := mended
		forced.ConsentStatus = "maybe"
		_, err = db.ReleaseLead(ctx, items[1].ID, forced)
		wantErr(t, err, store.ErrInvalid)
		taken := leadFor(b.ID)
		must(db.AddLeads(ctx, "node_x", offered(taken)))(t)
		taken.AccountID = a.ID
		_, err = db.ReleaseLead(ctx, items[1].ID, taken)
		wantErr(t, err, store.ErrConflict)
		if len(waiting(t, db)) != 2 {
			t.Fatal("a release that failed ended the wait")
		}

		q := must(db.ReleaseLead(ctx, items[1].ID, mended))(t)
		if q.State != store.QuarantineReleased || len(q.Body) != 0 || q.Size == 0 || q.SettledAt.IsZero() {
			t.Errorf("released: %+v", q)
		}
		if got := must(leadTable.Read(ctx, db.db, lost.ID))(t); got != mended {
			t.Errorf("kept %+v, want %+v", got, mended)
		}
		if q = must(db.DiscardLead(ctx, items[0].ID))(t); q.State != store.QuarantineDiscarded || len(q.Body) != 0 {
			t.Errorf("discarded: %+v", q)
		}
		for _, item := range items {
			_, err = db.ReleaseLead(ctx, item.ID, mended)
			wantErr(t, err, store.ErrConflict)
			_, err = db.DiscardLead(ctx, item.ID)
			wantErr(t, err, store.ErrConflict)
			entries, _, err := db.Audits(ctx, AuditFilter{Target: item.ID}, store.Page{})
			if noError(t, err); len(entries) != 1 || entries[0].Action != "lead."+map[string]string{lost.ID: "release", unwanted.ID: "discard"}[item.LeadID] || strings.Contains(string(entries[0].Before), "oe@example.com") {
				t.Errorf("audit: %+v", entries)
			}
		}
		handOver()
		if items := waiting(t, db); len(items) != 0 {
			t.Errorf("waits again: %+v", items)
		}
	})
}

// TestOldLeadsOfTheQuarantine: what has waited for long is discarded with its body, the oldest
// first, and comes back from no node. What was settled is forgotten in its time.
func TestOldLeadsOfTheQuarantine(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		clock := &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
		db := openWith(t, p, Config{Now: clock.now})
		ctx, old := t.Context(), []store.Lead{leadFor("acc_nobody"), leadFor("acc_nobody"), leadFor("acc_nobody")}
		must(db.AddLeads(ctx, "node_x", offered(old...)))(t)
		cut := clock.at.Add(time.Second)
		clock.at = cut.Add(time.Hour)
		young := leadFor("acc_nobody")
		must(db.AddLeads(ctx, "node_x", offered(young)))(t)
		items := waiting(t, db)
		for _, want := range []int{2, 1, 0} {
			if n := must(db.DiscardOldLeads(ctx, cut, 2))(t); n != want {
				t.Errorf("%d were discarded, want %d", n, want)
			}
		}
		for _, item := range items {
			q := must(db.QuarantinedLead(ctx, item.ID))(t)
			if waits := q.LeadID == young.ID; waits != (q.State == store.QuarantineWaiting) || waits != (len(q.Body) > 0) || waits != q.SettledAt.IsZero() {
				t.Errorf("%+v", q)
			}
		}
		must(db.AddLeads(ctx, "node_x", offered(old...)))(t)
		if left := waiting(t, db); len(left) != 1 {
			t.Errorf("%d wait after the node handed them over again, want 1", len(left))
		}
		for before, want := range map[time.Time]int{clock.at: 0, clock.at.Add(time.Second): 3} {
			removed := 0
			for n := 1; n > 0; removed += n {
				n = must(db.ForgetSettledLeads(ctx, before, 2))(t)
			}
			if removed != want {
				t.Errorf("%d settled leads are forgotten, want %d", removed, want)
			}
		}
		if left := waiting(t, db); len(left) != 1 {
			t.Errorf("%d wait, want 1", len(left))
		}
		_, err := db.DiscardOldLeads(ctx, time.Time{}, 2)
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestQuarantineIsBounded: what finds no room is rejected, so that its node keeps
// it, and what waits stays.
func TestQuarantineIsBounded(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		offer := func(id string) Handover {
			return must(db.AddLeads(t.Context(), "node_x", []OfferedLead{{AcceptedLead: store.AcceptedLead{Lead: store.Lead{ID: id}}, Body: []byte("x")}}))(t)
		}
		if done := offer("lead_1"); len(done.Quarantined) != 1 {
			t.Fatalf("the first: %v", done)
		}
		noError(t, db.change(t.Context(), "", func(ctx context.Context, tx *tx) error {
			_, err := tx.Exec(ctx, `UPDATE quarantine SET size = ?`, 256<<20)
			return err
		}))
		if done := offer("lead_2"); len(done.Rejected) != 1 || len(done.Quarantined) != 0 {
			t.Errorf("one for which there is no room: %v", done)
		}
		if done := offer("lead_1"); len(done.Quarantined) != 1 {
			t.Errorf("one that waits already: %v", done)
		}
		if n := len(waiting(t, db)); n != 1 {
			t.Errorf("%d wait", n)
		}
	})
}
