package central

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	engine "partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/usage"
)

// TestErase deletes a lead, then an account. Nothing of it is left in any table but the
// audit log, and all of another account is.
func TestErase(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		full := func(name string) store.Account {
			t.Helper()
			a, err := d.CreateAccount(ctx, store.Account{Name: name, Mode: store.ModeLive, Agent: store.Agent{Email: name + "@example.com", FullName: name}})
			if err != nil {
				t.Fatal(err)
			}
			k, err := d.CreateKey(ctx, store.Key{AccountID: a.ID, Hash: [32]byte([]byte(strings.Repeat(name, 32)[:32])), Environment: store.Live, Scopes: []string{store.ScopeWriteLeads}})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.AddSubscription(ctx, store.Subscription{
				ID: "whs_" + name, AccountID: a.ID, KeyID: k.ID, Environment: store.Live, TargetURL: "https://example.com/" + name,
				Events: []string{store.EventClientContacted}, Secret: strings.Repeat("5e", 32), CreatedAt: time.Now(),
			}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := d.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "client " + name, Channel: "sms"}); err != nil {
				t.Fatal(err)
			}
			used := usage.Counter{KeyID: k.ID, Day: store.DayOf(d.Now()), Node: "node_1", Boot: "b"}
			if _, err := d.RecordUsage(ctx, map[usage.Counter]usage.Count{used: {Requests: 1, Vouched: true}}); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"1", "2"} {
				l := store.Lead{ID: "lead_" + name + id, AccountID: a.ID, KeyID: k.ID, Environment: store.Live, FirstName: "Person " + name, Email: "p@example.com", ConsentStatus: "none", CreatedAt: time.Now()}
				body, err := json.Marshal(l)
				if err != nil {
					t.Fatal(err)
				}
				if done, err := d.AddLeads(ctx, "node_1", []OfferedLead{{AcceptedLead: store.AcceptedLead{Lead: l}, Vouched: true, Body: body}}); err != nil || len(done.Committed) != 1 {
					t.Fatal(done, err)
				}
			}
			return a
		}
		gone, stays := full("gone"), full("stays")
		if l, err := d.DeleteLead(ctx, "lead_gone1"); err != nil || l.FirstName != "Person gone" {
			t.Fatal(l, err)
		}
		if _, err := d.DeleteLead(ctx, "lead_gone1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		// Its node offers it again, after a restore, and it does not come back.
		again := func(id string) OfferedLead {
			return ReadLead("", fmt.Appendf(nil, `{"id":%q,"account_id":%q,"environment":"live","first_name":"Person gone","email":"p@example.com","consent_status":"none"}`, id, gone.ID))
		}
		if done, err := d.AddLeads(ctx, "node_1", []OfferedLead{again("lead_gone1")}); err != nil || len(done.Committed) != 1 || len(done.Quarantined) != 0 {
			t.Errorf("a deleted lead is offered again: %+v %v", done, err)
		}
		if left, _, err := d.Leads(ctx, gone.ID, store.Page{}); err != nil || len(left) != 1 {
			t.Errorf("left are %v, %v", left, err)
		}
		if _, err := d.Bury(ctx, store.Tombstone{ID: "lead_gone2", DeletedAt: time.Unix(1e9, 0)}); err != nil {
			t.Error(err)
		}
		if left, _, err := d.Leads(ctx, gone.ID, store.Page{}); err != nil || len(left) != 0 {
			t.Errorf("left of what is buried: %v, %v", left, err)
		}
		if _, err := d.Bury(ctx, store.Tombstone{ID: "key_x"}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a key is buried: %v", err)
		}
		erased, err := d.EraseAccount(ctx, gone.ID)
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string]int64{"leads": 0, "contacts": 1, "keys": 1, "key_usage": 1, "subscriptions": 1, "events": 1, "deliveries": 1} {
			if erased[kind] != want {
				t.Errorf("of %s %d went, want %d", kind, erased[kind], want)
			}
		}
		for _, of := range ofAccount {
			for account, want := range map[string]bool{gone.ID: false, stays.ID: of.table == "leads" || of.table == "contacts" || of.table == "keys" || of.table == "key_usage" || of.table == "agents" || of.table == "events" || of.table == "deliveries" || of.table == "subscriptions"} {
				var n int
				if err := d.db.QueryRow(ctx, `SELECT count(*) FROM `+of.table+` WHERE `+of.where, account).Scan(&n); err != nil || (n > 0) != want {
					t.Errorf("%s of %s: %d, %v", of.table, account, n, err)
				}
			}
		}
		if done, err := d.AddLeads(ctx, "node_1", []OfferedLead{again("lead_gone3")}); err != nil || len(done.Committed) != 1 || len(done.Quarantined) != 0 {
			t.Errorf("a lead of a deleted account is offered: %+v %v", done, err)
		}
		if _, err := d.Bury(ctx, store.Tombstone{ID: stays.ID}); err != nil {
			t.Error(err)
		}
		if _, err := d.Account(ctx, stays.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a buried account: %v", err)
		}
		tombstones, _, err := d.Tombstones(ctx, store.Page{})
		if err != nil || len(tombstones) != 4 || tombstones[0].ID != stays.ID {
			t.Errorf("tombstones %v, %v", tombstones, err)
		}
		for id, action := range map[string]string{"lead_nowhere": "lead.delete", "acc_nowhere": "account.delete"} {
			if _, err := d.Bury(ctx, store.Tombstone{ID: id}); err != nil {
				t.Error(err)
			}
			if log, _, err := d.Audits(ctx, AuditFilter{Target: id}, store.Page{}); err != nil || len(log) != 1 || log[0].Action != action || !strings.Contains(string(log[0].After), "false") {
				t.Errorf("the log of %s, of which nothing is kept: %+v, %v", id, log, err)
			}
		}
		// A try that was under way while its account went leaves nothing.
		late := deliveries.Outcome{SubscriptionID: "whs_gone", State: store.StateDelivered,
			Attempt: store.Attempt{ID: "att_1", DeliveryID: "dlv_gone", Number: 1, StartedAt: time.Now(), Status: 200, Excerpt: "Person gone"}}
		if err := d.RecordOutcomes(ctx, []deliveries.Outcome{late}); err != nil {
			t.Error(err)
		}
		var left int
		if err := d.db.QueryRow(ctx, `SELECT count(*) FROM attempts`).Scan(&left); err != nil || left > 0 {
			t.Errorf("%d attempts are left by a late outcome: %v", left, err)
		}
		if _, err := d.Account(ctx, gone.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the account is there: %v", err)
		}
		if _, err := d.EraseAccount(ctx, gone.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("erased twice: %v", err)
		}
		for action, target := range map[string]string{"account.delete": gone.ID, "lead.delete": "lead_gone1"} {
			entries, _, err := d.Audits(ctx, AuditFilter{Target: target}, store.Page{Limit: 1})
			if err != nil || len(entries) != 1 || entries[0].Action != action || strings.Contains(string(entries[0].After), "Person") {
				t.Errorf("the audit log of %s: %+v, %v", action, entries, err)
			}
		}
	})
}

// TestErasureNamesNobody erases accounts and reads what the audit log has gained: entries of
// what ended, and nothing of whose it was.
func TestErasureNamesNobody(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		for how, erase := range map[string]func(context.Context, *DB, string) error{
			"erased": func(ctx context.Context, d *DB, id string) error {
				_, err := d.EraseAccount(ctx, id)
				return err
			},
			"buried": func(ctx context.Context, d *DB, id string) error {
				_, err := d.Bury(ctx, store.Tombstone{ID: id})
				return err
			},
		} {
			d := open(t, p)
			ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
			a := must(d.CreateAccount(ctx, store.Account{Name: "Ana's team", Mode: store.ModeLive,
				Agent: store.Agent{Email: "ana@example.com", FullName: "Ana Agent"}}))(t)
			k := keyFor(a.ID)
			k.Label = "Ana's laptop"
			k = must(d.CreateKey(ctx, k))(t)
			noError(t, d.AddSubscription(ctx, store.Subscription{
				ID: store.NewID("whs", time.Now()), AccountID: a.ID, KeyID: k.ID, Environment: store.Live, TargetURL: "https://example.com/Ana",
				Events: []string{store.EventClientContacted}, Secret: strings.Repeat("5e", 32), CreatedAt: time.Now(),
			}))
			before, _, err := d.Audits(ctx, AuditFilter{}, store.Page{Limit: 200})
			noError(t, err)
			version := d.EndpointsVersion()
			noError(t, erase(ctx, d, a.ID))
			if d.EndpointsVersion() == version {
				t.Errorf("%s: the endpoints are not read again", how)
			}
			after, _, err := d.Audits(ctx, AuditFilter{}, store.Page{Limit: 200})
			noError(t, err)
			var actions []string
			for _, e := range after[:len(after)-len(before)] {
				actions = append(actions, e.Action)
				if shown := fmt.Sprintf("%s %s", e.Before, e.After); strings.Contains(shown, "@example.com") || strings.Contains(shown, "Ana") {
					t.Errorf("%s: the entry %s shows %s", how, e.Action, shown)
				}
			}
			if want := []string{"account.delete", "account.update", "webhook.revoke", "key.revoke"}; !slices.Equal(actions, want) {
				t.Errorf("%s: the log has %v, want %v", how, actions, want)
			}
		}
	})
}

// TestKeyThatIsMadeWhileItsAccountGoes: a key that is made after the others have ended is
// gone at every node too.
func TestKeyThatIsMadeWhileItsAccountGoes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := t.Context()
		a := newAccount(t, d, store.ModeLive)
		before := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
		noError(t, d.endAccount(ctx, a.ID))
		late := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
		erased := must(d.eraseRecords(ctx, a.ID))(t)
		erased = must(d.eraseRest(ctx, a.ID, time.Time{}, erased))(t)
		if erased["keys"] != 2 {
			t.Errorf("%d keys went, want 2", erased["keys"])
		}
		gone := map[string]int{}
		for _, c := range must(d.ChangesSince(ctx, Position{}, 1000))(t).Changes {
			if c.Kind == store.ChangeKey && c.Gone {
				gone[c.Ref]++
			}
		}
		if gone[before.ID] != 1 || gone[late.ID] != 1 {
			t.Errorf("keys that are gone: %v, want %s and %s, once each", gone, before.ID, late.ID)
		}
	})
}

// TestDeletedLeavesTheQuarantine deletes leads that only the quarantine has: their bodies
// go with them, and no release brings one back.
func TestDeletedLeavesTheQuarantine(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d, ctx := open(t, p), t.Context()
		a := newAccount(t, d, store.ModeLive)
		refuse := func(id string) (store.QuarantinedLead, store.Lead) {
			l := leadFor(a.ID)
			l.ID = id
			body := fmt.Appendf(nil, `{"id":%q,"account_id":%q,"first_name":"Ana","captured_at":"yesterday"}`, id, a.ID)
			if done, err := d.AddLeads(ctx, "node_1", []OfferedLead{ReadLead("", body)}); err != nil || len(done.Quarantined) != 1 {
				t.Fatal(done, err)
			}
			return waiting(t, d)[0], l
		}
		rows := func(id string) (n int) {
			noError(t, d.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM quarantine WHERE lead_id = ?) + (SELECT count(*) FROM leads WHERE id = ?)`, id, id).Scan(&n))
			return n
		}
		deleted, l := refuse("lead_deleted")
		if got, err := d.DeleteLead(ctx, l.ID); err != nil || got.ID != l.ID || got.AccountID != a.ID || got.FirstName != "Ana" {
			t.Errorf("deleted %+v, %v", got, err)
		}
		buried, l2 := refuse("lead_buried")
		_, err := d.Bury(ctx, store.Tombstone{ID: l2.ID})
		noError(t, err)
		for _, id := range []string{l.ID, l2.ID} {
			if n := rows(id); n != 0 {
				t.Errorf("%d rows are left of %s", n, id)
			}
		}
		for id, l := range map[string]store.Lead{deleted.ID: l, buried.ID: l2} {
			_, err := d.ReleaseLead(ctx, id, l)
			wantErr(t, err, store.ErrNotFound)
		}
		_, err = d.DeleteLead(ctx, "lead_none")
		wantErr(t, err, store.ErrNotFound)

		// One that waits and is mended to what was deleted.
		q, l3 := refuse("lead_waits")
		l3.ID = l.ID
		_, err = d.ReleaseLead(ctx, q.ID, l3)
		wantErr(t, err, store.ErrConflict)
		b := newAccount(t, d, store.ModeLive)
		_, err = d.EraseAccount(ctx, b.ID)
		noError(t, err)
		l3.ID, l3.AccountID = "lead_waits", b.ID
		_, err = d.ReleaseLead(ctx, q.ID, l3)
		wantErr(t, err, store.ErrConflict)
		// A backup that has the row of a deleted lead.
		noError(t, d.change(ctx, "", func(ctx context.Context, t *tx) error { return t.bury(ctx, "lead_waits", t.Now()) }))
		l3.ID, l3.AccountID = "lead_other", a.ID
		_, err = d.ReleaseLead(ctx, q.ID, l3)
		wantErr(t, err, store.ErrConflict)
		if n := rows("lead_other") + rows(l.ID); n != 0 {
			t.Errorf("%d rows of what was deleted", n)
		}
	})
}

// TestContactsGoAfterTheirLead deletes leads that went before, by their age: the contacts
// with the person go, and no others.
func TestContactsGoAfterTheirLead(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		a := newAccount(t, d, store.ModeLive)
		for _, client := range []string{"lead_old", "lead_buried", "lead_other", "7"} {
			_, _, err := d.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: client, Channel: "sms"})
			noError(t, err)
		}
		if got := must(d.DeleteLead(ctx, "lead_old"))(t); got != (store.Lead{ID: "lead_old", AccountID: a.ID}) {
			t.Errorf("deleted %+v", got)
		}
		_, err := d.DeleteLead(ctx, "lead_old")
		wantErr(t, err, store.ErrNotFound)
		_, err = d.Bury(ctx, store.Tombstone{ID: "lead_buried"})
		noError(t, err)
		_, err = d.DeleteLead(ctx, "7") // a client's, but no lead's
		wantErr(t, err, store.ErrNotFound)
		b := newAccount(t, d, store.ModeLive)
		l := leadFor(b.ID)
		l.ID = "7" // of a module that numbers its leads
		if done := must(d.AddLeads(ctx, "node_1", offered(l)))(t); len(done.Committed) != 1 {
			t.Fatalf("%+v", done)
		}
		_ = must(d.DeleteLead(ctx, l.ID))(t)

		left := must(engine.All(ctx, d.db, engine.Column[string], `SELECT client_id FROM contacts ORDER BY client_id`))(t)
		if !slices.Equal(left, []string{"7", "lead_other"}) {
			t.Errorf("contacts are left with %v", left)
		}
		for _, id := range []string{"lead_old", "lead_buried"} {
			log, _, err := d.Audits(ctx, AuditFilter{Target: id}, store.Page{})
			noError(t, err)
			if first := log[len(log)-1]; !strings.Contains(strings.ReplaceAll(string(first.After), " ", ""), `"contacts":1`) {
				t.Errorf("the audit log of %s: %s", id, first.After)
			}
		}
	})
}

// TestNoContactWithADeletedLead deletes leads with contacts that have idempotency keys: none
// of them is added or confirmed again, and nothing but their events has the lead's id.
func TestNoContactWithADeletedLead(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		a, other := newAccount(t, d, store.ModeLive), newAccount(t, d, store.ModeLive)
		add := func(account, client, key string) error {
			ctx := t.Context()
			if key != "" {
				ctx, _ = keyed(key, client)
			}
			_, _, err := d.AddContact(ctx, store.Contact{AccountID: account, ClientID: client, Channel: "sms"})
			return err
		}
		for id, remove := range map[string]func() error{
			"lead_deleted": func() error {
				_, err := d.DeleteLead(t.Context(), "lead_deleted")
				return err
			},
			"lead_buried": func() error {
				_, err := d.Bury(t.Context(), store.Tombstone{ID: "lead_buried"})
				return err
			},
		} {
			stays := id + "_" // another lead, whose id begins alike
			for key, client := range map[string]string{"of " + id: id, "of " + stays: stays} {
				noError(t, add(a.ID, client, key))
				noError(t, add(other.ID, client, key))
			}
			ctx, _ := keyed("of "+id, "firing")
			_, _, err := d.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "x", Action: "y", Data: []byte(`{"client_id":"` + id + `"}`)})
			noError(t, err)
			had := len(eventsOf(t, d, a.ID))
			noError(t, remove())
			for _, key := range []string{"", "of " + id, "new"} {
				wantErr(t, add(a.ID, id, key), store.ErrConflict)
			}
			wantErr(t, add(other.ID, id, "of "+id), store.ErrConflict)
			noError(t, add(a.ID, stays, "of "+stays))
			if n := len(eventsOf(t, d, a.ID)); n != had {
				t.Errorf("%s: %d events, want the %d from before", id, n, had)
			}
			var contacts, answers int
			noError(t, d.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM contacts WHERE client_id = ?),
				(SELECT count(*) FROM idempotency WHERE name LIKE 'contact %' AND answer LIKE ?)`, id, `%"`+id+`"%`).Scan(&contacts, &answers))
			if contacts > 0 || answers > 0 {
				t.Errorf("%s: %d contacts and %d answers are left", id, contacts, answers)
			}
		}
		// The others' answers stay: those of the two leads that stay, in both accounts, and of the firings.
		var answers int
		noError(t, d.db.QueryRow(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&answers))
		if answers != 6 {
			t.Errorf("%d answers are left, want 6", answers)
		}
	})
}

// TestLeadIsDeletedBeforeItComes: a lead that a node still holds is not found, and is
// dropped when it comes. What is no lead's id is not buried.
func TestLeadIsDeletedBeforeItComes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		a := newAccount(t, d, store.ModeLive)
		l := leadFor(a.ID)
		l.ID = "lead_at_a_node"
		_, err := d.DeleteLead(ctx, l.ID)
		wantErr(t, err, store.ErrNotFound)
		if done, err := d.AddLeads(ctx, "node_1", offered(l)); err != nil || len(done.Committed) != 1 || len(done.Quarantined) != 0 {
			t.Fatal(done, err)
		}
		_, err = d.Lead(ctx, l.ID)
		wantErr(t, err, store.ErrNotFound)
		entries, _, err := d.Audits(ctx, AuditFilter{Target: l.ID}, store.Page{Limit: 10})
		noError(t, err)
		if len(entries) != 1 || entries[0].Action != "lead.delete" {
			t.Errorf("the audit log has %+v", entries)
		}

		_, err = d.DeleteLead(ctx, a.ID)
		wantErr(t, err, store.ErrNotFound)
		buried, _, err := d.Tombstones(ctx, store.Page{Limit: 10})
		noError(t, err)
		if len(buried) != 1 || buried[0].ID != l.ID {
			t.Errorf("buried: %+v", buried)
		}
	})
}

// TestErasedLeavesTheDisk reads the bytes of SQLite's file and its log for what was erased:
// a lead, one that only the quarantine has, which is longer than a page, and an account.
func TestErasedLeavesTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "origin.db")
	d, ctx := open(t, place{"sqlite", path}), t.Context()
	a, b := newAccount(t, d, store.ModeLive), newAccount(t, d, store.ModeLive)
	var first store.Lead
	for n := range 300 {
		l := leadFor(a.ID)
		l.Email = "dana@erased.example"
		if n == 0 {
			first = l
		}
		stays := leadFor(b.ID)
		stays.Email = "sam@stays.example"
		if done := must(d.AddLeads(ctx, "node_1", offered(l, stays)))(t); len(done.Committed) != 2 {
			t.Fatalf("%+v", done)
		}
	}
	refused := fmt.Appendf(nil, `{"id":"lead_refused","account_id":%q,"email":"kim@refused.example","captured_at":%q}`, a.ID, strings.Repeat("kim@refused.example ", 1000))
	if done := must(d.AddLeads(ctx, "node_1", []OfferedLead{ReadLead("", refused)}))(t); len(done.Quarantined) != 1 {
		t.Fatalf("%+v", done)
	}
	onDisk := func(text string) (n int) {
		t.Helper()
		for _, name := range []string{path, path + "-wal"} {
			n += bytes.Count(must(os.ReadFile(name))(t), []byte(text))
		}
		return n
	}
	for _, text := range []string{"dana@erased.example", "sam@stays.example", "kim@refused.example"} {
		if onDisk(text) == 0 {
			t.Fatalf("%s is not on the disk before", text)
		}
	}
	_ = must(d.DeleteLead(ctx, "lead_refused"))(t)
	if n := onDisk("kim@refused.example"); n > 0 {
		t.Errorf("the body of a deleted lead of the quarantine is on the disk, %d times", n)
	}

	// While somebody reads from the log it stays as it is, and is emptied later.
	reading := must(d.db.Query(ctx, `SELECT id FROM leads`))(t)
	if !reading.Next() {
		t.Fatal(reading.Err())
	}
	_ = must(d.DeleteLead(ctx, first.ID))(t)
	wantErr(t, d.EmptyLog(ctx), store.ErrUnavailable)
	noError(t, reading.Close())
	_, err := d.Bury(ctx, store.Tombstone{ID: a.ID})
	noError(t, err)
	if n := onDisk("dana@erased.example"); n > 0 || onDisk("sam@stays.example") == 0 {
		t.Errorf("the e-mail address of an erased account's leads is on the disk, %d times", n)
	}
}

// TestErasureReadsNoOthers asks for the plans of what finds an account's records, and a
// person's contacts: each goes by an index, but for the quarantine, which is small.
func TestErasureReadsNoOthers(t *testing.T) {
	d := open(t, place{"sqlite", filepath.Join(t.TempDir(), "origin.db")})
	queries := map[string][]any{`SELECT id FROM contacts WHERE ` + contactsOfClient: {"lead_1"}}
	for _, of := range ofAccount {
		queries[`SELECT `+of.id+` FROM `+of.table+` WHERE `+of.where+` LIMIT 10`] = []any{"acc_1"}
	}
	for query, args := range queries {
		if plan := dbtest.Explain(t, d.db, query, args...); strings.Contains(plan, "SCAN") && plan != "SCAN quarantine" {
			t.Errorf("%s reads all rows:\n%s", query, plan)
		}
	}
}

// TestKeyUsageIsErasedInSlices erases an account with a key that has three slices of rows: each
// statement removes one slice of them.
func TestKeyUsageIsErasedInSlices(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		k := must(d.CreateKey(t.Context(), keyFor(a.ID)))(t)
		of := ofAccount[slices.IndexFunc(ofAccount[:], func(of records) bool { return of.table == "key_usage" })]
		noError(t, d.db.WriteAlone(t.Context(), func(ctx context.Context, tx *engine.Tx) error {
			for i := range 3 * eraseSlice {
				if _, err := tx.Exec(ctx, `INSERT INTO key_usage (key_id, day, node_id, boot, requests, limited) VALUES (?, ?, ?, ?, 1, 0)`,
					k.ID, int64(i%30), fmt.Sprint("node_", i/30%10), fmt.Sprint(i/300)); err != nil {
					return err
				}
			}
			if gone, err := of.eraseSome(ctx, tx, a.ID); err != nil || gone != eraseSlice {
				t.Errorf("the first slice is of %d rows, %v, want %d", gone, err, eraseSlice)
			}
			return nil
		}))
		if erased := must(d.EraseAccount(t.Context(), a.ID))(t); erased["key_usage"] != 2*eraseSlice || erased["keys"] != 1 {
			t.Errorf("erased are %v, want the other two slices and the key", erased)
		}
	})
}
