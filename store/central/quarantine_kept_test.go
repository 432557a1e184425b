package central

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"partneredge/store"
	"partneredge/store/central/audit"
)

// TestReleaseIntoAKeptID: a lead whose id its account has already is not lost by
// a release, unless the account has that very lead.
func TestReleaseIntoAKeptID(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a, b := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		kept := leadFor(a.ID)
		other := kept
		other.AccountID, other.FirstName, other.ConsentText = b.ID, "Other", "Text of the other."
		must(db.AddLeads(t.Context(), "node_x", offered(kept)))(t)
		must(db.AddLeads(t.Context(), "node_x", offered(other)))(t)
		id := waiting(t, db)[0].ID

		other.AccountID = a.ID
		_, err := db.ReleaseLead(t.Context(), id, other)
		wantErr(t, err, store.ErrConflict)
		if q := must(db.QuarantinedLead(t.Context(), id))(t); q.State != store.QuarantineWaiting || len(q.Body) == 0 {
			t.Fatalf("after a refused release: %+v", q)
		}
		if q := must(db.ReleaseLead(t.Context(), id, kept))(t); q.State != store.QuarantineReleased {
			t.Errorf("the lead that the account has: %+v", q)
		}
		if got := must(leadTable.Read(t.Context(), db.db, kept.ID))(t); got != kept {
			t.Errorf("kept %+v, want %+v", got, kept)
		}
	})
}

// TestEachBodyWaits: another body under the id and account of one that waits, or
// that was settled, waits too.
func TestEachBodyWaits(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		offer := func(name string) {
			body := fmt.Appendf(nil, `{"id":"lead_same","account_id":"acc_nobody","first_name":%q}`, name)
			must(db.AddLeads(t.Context(), "node_x", []OfferedLead{ReadLead("", body)}))(t)
		}
		offer("Ana")
		offer("Ana")
		offer("Bo")
		if items := waiting(t, db); len(items) != 2 {
			t.Fatalf("%d wait, want 2", len(items))
		}
		must(db.DiscardLead(t.Context(), waiting(t, db)[1].ID))(t)
		offer("Ana")
		offer("Cy")
		if items := waiting(t, db); len(items) != 2 {
			t.Fatalf("%d wait after one was discarded, want 2", len(items))
		}
	})
}

// TestAuditOfARelease: the log says which lead was released, with which consent
// and which fields mended, and nothing of the person.
func TestAuditOfARelease(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_x", Name: "Kim", Role: store.RoleOperator})
		a := newAccount(t, db, store.ModeLive)
		l := leadFor("acc_nobody")
		must(db.AddLeads(ctx, "node_x", offered(l)))(t)
		id := waiting(t, db)[0].ID
		l.AccountID, l.FirstName, l.Email, l.Phone, l.ConsentText = a.ID, "Secretname", "secret@example.com", "+1 555 010 0009", "Secret text."
		l.ConsentStatus, l.OutreachAllowed = "express_written", true
		must(db.ReleaseLead(ctx, id, l))(t)
		entries, _, err := db.Audits(ctx, AuditFilter{Target: id}, store.Page{})
		if noError(t, err); len(entries) != 1 {
			t.Fatalf("%+v", entries)
		}
		var after struct {
			State, LeadID, AccountID, ConsentStatus string
			Changed                                 []string
			OutreachAllowed                         bool
		}
		noError(t, json.Unmarshal(bytes.ReplaceAll(entries[0].After, []byte("_"), nil), &after))
		text := string(entries[0].After)
		if after.State != "released" || !strings.Contains(text, l.ID) || !strings.Contains(text, a.ID) || after.ConsentStatus != "expresswritten" || !after.OutreachAllowed {
			t.Errorf("audited %s", text)
		}
		if changed := strings.Join(after.Changed, " "); !strings.Contains(changed, "accountid") || !strings.Contains(changed, "consenttext email firstname") || strings.Contains(changed, "lastname") || strings.Contains(changed, "createdat") {
			t.Errorf("changed %s", changed)
		}
		for _, secret := range []string{"ecret", "555 010"} {
			if strings.Contains(text, secret) {
				t.Errorf("the log holds %q: %s", secret, text)
			}
		}
	})
}
