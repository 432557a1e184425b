package central

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
	"partneredge/store/central/deliveries"
)

// TestExportAccount exports an account with more of each kind than a page has. All of
// it is there once, nothing of another account is, and the audit log tells of it.
func TestExportAccount(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		const contacts, insights = 201, exportPage + 1
		fill := func(contacts, insights int) store.Account {
			a := newAccount(t, d, store.ModeLive)
			must(d.CreateKey(ctx, keyFor(a.ID)))(t)
			noError(t, d.AddSubscription(ctx, subscriptionFor(a.ID, store.EventClientContacted)))
			var several errgroup.Group
			for range contacts {
				several.Go(func() error {
					_, _, err := d.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: "sms"})
					return err
				})
			}
			noError(t, several.Wait())
			run := make([]store.Insight, insights)
			for i := range run {
				run[i].Headline = fmt.Sprint(i)
			}
			_, _, err := d.AddCoachingRun(ctx, a.ID, run)
			noError(t, err)
			_, _, err = d.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "s", Action: "a"})
			noError(t, err)
			must(d.PutDeal(ctx, store.Deal{AccountID: a.ID, ID: "d", Stage: "s"}))(t)
			must(d.PutGoal(ctx, store.Goal{AccountID: a.ID, ID: "g", Pace: "ahead"}))(t)
			var offered []OfferedLead
			for range 2 { // the second is refused
				l := leadFor(a.ID)
				l.ID = store.NewID("lead", time.Now())
				offered = append(offered, OfferedLead{AcceptedLead: store.AcceptedLead{Lead: l}, Vouched: true, Body: []byte("{}")})
			}
			offered[1].CapturedAt = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
			if done, err := d.AddLeads(ctx, "node_1", offered); err != nil || len(done.Committed) != 1 || len(done.Quarantined) != 1 {
				t.Fatal(done, err)
			}
			return a
		}
		a := fill(contacts, insights)
		fill(1, 1)
		subscriptions, _, err := d.Subscriptions(ctx, a.ID, store.Page{})
		noError(t, err)
		page, _, err := d.Deliveries(ctx, deliveries.Filter{SubscriptionID: subscriptions[0].ID}, store.Page{Limit: 1})
		noError(t, err)
		noError(t, d.RecordOutcomes(ctx, []deliveries.Outcome{{SubscriptionID: page[0].SubscriptionID, State: store.StateDelivered,
			Attempt: store.Attempt{ID: "att_1", DeliveryID: page[0].ID, Number: 1, StartedAt: time.Now(), Status: 200, Excerpt: "thanks"}}}))

		got, seen, tries := map[string]int{}, map[string]bool{}, 0
		noError(t, d.ExportAccount(ctx, a.ID, func(record any) error {
			v := reflect.ValueOf(record)
			kind, id := v.Type().Name(), v.FieldByName("ID").String()
			if len(got) == 0 && kind != "Account" {
				t.Errorf("the first record is a %s", kind)
			}
			if got[kind]++; seen[kind+id] {
				t.Errorf("%s %s is there twice", kind, id)
			}
			seen[kind+id] = true
			if of := v.FieldByName("AccountID"); kind != "Account" && of.String() != a.ID {
				t.Errorf("%s %s is of account %s", kind, id, of)
			}
			if delivery, is := record.(LoggedDelivery); is {
				tries += len(delivery.Attempts)
			}
			return nil
		}))
		want := map[string]int{
			"Account": 1, "Key": 1, "Subscription": 1, "Lead": 1, "QuarantinedLead": 1, "Contact": contacts, "Insight": insights, "Firing": 1,
			"Deal": 1, "Goal": 1, "Event": contacts + 2, "LoggedDelivery": contacts,
		}
		if !reflect.DeepEqual(got, want) || tries != 1 {
			t.Errorf("exported %v and %d tries, want %v and one", got, tries, want)
		}
		if entries, _, err := d.Audits(ctx, AuditFilter{Target: a.ID}, store.Page{Limit: 1}); err != nil || len(entries) != 1 || entries[0].Action != "account.export" || entries[0].Actor.Name != "Kim" {
			t.Errorf("audit %v %v", entries, err)
		}

		full := errors.New("disk full")
		calls := 0
		if err := d.ExportAccount(ctx, a.ID, func(any) error { calls++; return full }); !errors.Is(err, full) || calls != 1 {
			t.Errorf("a reader that fails gets %d records and %v", calls, err)
		}
		wantErr(t, d.ExportAccount(ctx, "acc_none", func(any) error { return nil }), store.ErrNotFound)
	})
}

// TestExportWhileLeadsGo exports an account of which a lead leaves the quarantine
// meanwhile: the export goes on without it.
func TestExportWhileLeadsGo(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d, ctx := open(t, p), t.Context()
		a := newAccount(t, d, store.ModeLive)
		for _, id := range []string{"lead_stays", "lead_goes", "lead_stays_too"} {
			done := must(d.AddLeads(ctx, "node_1", []OfferedLead{ReadLead("", fmt.Appendf(nil, `{"id":%q,"account_id":%q,"phone":7}`, id, a.ID))}))(t)
			if len(done.Quarantined) != 1 {
				t.Fatal(done)
			}
		}
		var got []string
		noError(t, d.ExportAccount(ctx, a.ID, func(record any) error {
			q, is := record.(store.QuarantinedLead)
			if !is {
				return nil
			}
			got = append(got, q.LeadID)
			_, err := d.Bury(ctx, store.Tombstone{ID: "lead_goes"})
			return err
		}))
		if want := []string{"lead_stays", "lead_stays_too"}; !reflect.DeepEqual(got, want) {
			t.Errorf("exported %v, want %v", got, want)
		}
	})
}

// TestExportReadsEachRecordOnce exports an account of three pages each of firings, insights,
// contacts and events, beside another such one: all are there, and a page reads no record of
// another page or account, by its query plan.
func TestExportReadsEachRecordOnce(t *testing.T) {
	const records = 2*exportPage + 1
	each(t, func(t *testing.T, p place) {
		ctx, d := t.Context(), open(t, p)
		fill := func() string {
			account := newAccount(t, d, store.ModeLive).ID
			noError(t, addEvents(ctx, d, account, records-1))
			_, _, err := d.AddCoachingRun(ctx, account, make([]store.Insight, records)) // and one event
			noError(t, err)
			noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, tx *db.Tx) error {
				firings, now := make([]store.Firing, records), tx.Now()
				for i := range firings { // the newest has the lowest id
					at := now.Add(-time.Duration(i) * time.Microsecond)
					firings[i] = store.Firing{ID: fmt.Sprintf("fir_%s%d", account, i), AccountID: account, TriggeredAt: at}
				}
				if err := insertFirings.Run(ctx, tx, firings); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `INSERT INTO contacts (id, account_id, client_id, channel, occurred_at)
					SELECT 'con_' || id, account_id, 'one person', 'sms', triggered_at FROM firings WHERE account_id = ?`, account)
				return err
			}))
			return account
		}
		account := fill()
		fill()
		seen, got := map[string]bool{}, map[string]int{}
		noError(t, d.ExportAccount(ctx, account, func(record any) error {
			v := reflect.ValueOf(record)
			kind, id := v.Type().Name(), v.FieldByName("ID").String()
			if got[kind]++; seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
			return nil
		}))
		if want := map[string]int{"Account": 1, "Firing": records, "Insight": records, "Contact": records, "Event": records}; !reflect.DeepEqual(got, want) {
			t.Errorf("exported %v, want %v", got, want)
		}
		events := exportedEventsLite.query()
		var place any = 0
		if p.kind == "postgres" {
			events, place = exportedEvents.query(), ""
			_ = must(d.db.Query(ctx, `ANALYZE`))(t).Close()
		}
		for query, after := range map[string]any{
			exportedFirings.query(): 0, exportedInsights.query(): 0, exportedContacts.query(): "", events: place,
		} {
			plan := dbtest.Explain(t, d.db, query, account, after, exportPage)
			for _, bad := range []string{"TEMP B-TREE", "Sort Method", "Rows Removed by Filter", "SCAN"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s reads more than a page:\n%s", query, plan)
					break
				}
			}
		}
	})
}
