package node

import (
	"encoding/json"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestAgentJoined compares the time at which an agent joined with that of the
// origin's record; the account is older.
func TestAgentJoined(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{
		ID: "acc_1", CreatedAt: time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC),
		Agent: store.Agent{ID: "agt_1", JoinedAt: time.Date(2019, 2, 3, 4, 5, 6, 789_000, time.UTC)},
	}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200, `"joined_at":"2019-02-03T04:05:06.000789Z"`)
}

// TestOutreachNeedsExpressConsent looks at leads as the origin gets them: only who
// agreed in writing may be written to, and the origin refuses a lead that says
// otherwise.
func TestOutreachNeedsExpressConsent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	got := map[string]store.AcceptedLead{} // by first name
	o.heard = func(_, verb string, data []byte) {
		if verb == wire.VerbLeads {
			for _, l := range leadsOf(t, data) {
				got[l.FirstName] = l
			}
		}
	}
	n := startNode(t, config(t, o))
	for name, consent := range map[string]string{
		"Written": `{"status":"express_written","text_snapshot":"I agree.","captured_at":"2025-05-01T02:03:04Z"}`,
		"Inbound": `{"status":"inbound_initiated","text_snapshot":"I agree.","captured_at":"2025-05-01T02:03:04Z"}`,
		"Ahead":   `{"status":"express_written","captured_at":"9999-12-31T23:59:59.999999Z"}`,
		"None":    `{"status":"none"}`,
		"Nothing": `null`,
	} {
		ask(t, n, "POST", newLead, key, `{"name":"`+name+`","email":"a@example.com","consent":`+consent+`}`).want(t, 201)
	}
	eventually(t, "the origin has all leads", func() (all bool) {
		o.do(func() { all = len(got) == 5 })
		return all
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, status := range map[string]string{"Written": "express_written", "Inbound": "inbound_initiated", "Ahead": "express_written", "None": "none", "Nothing": "none"} {
		l := got[name]
		if l.ConsentStatus != status || l.OutreachAllowed != (name == "Written") {
			t.Errorf("%s: consent %q, outreach %t", name, l.ConsentStatus, l.OutreachAllowed)
		}
		if l.AccountID != "acc_1" || l.KeyID != "key_1" || l.Environment != store.Live || l.Email != "a@example.com" || l.CreatedAt.IsZero() {
			t.Errorf("%s: %+v", name, l)
		}
	}
	captured := time.Date(2025, 5, 1, 2, 3, 4, 0, time.UTC)
	for name, l := range got {
		if dated := name == "Written" || name == "Inbound"; dated != l.CapturedAt.Equal(captured) || dated != (l.ConsentText == "I agree.") {
			t.Errorf("%s: captured %v, %q", name, l.CapturedAt, l.ConsentText)
		}
	}
}

// TestEverythingWorksInSetup calls every endpoint for an account that is not live
// yet, since partners build their integrations then.
func TestEverythingWorksInSetup(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1", Mode: store.ModeSetup}
	o.insights["acc_1"] = []store.Insight{{ID: "ins_1", CreatedAt: time.Now()}}
	o.firings["acc_1"] = []store.Firing{{ID: "fir_1", TriggeredAt: time.Now(), Data: []byte(`{}`)}}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200, `"activation_mode":"setup"`)
	ask(t, n, "GET", insights, key, "").want(t, 200, `"ins_1"`)
	ask(t, n, "GET", firings, key, "").want(t, 200, `"fir_1"`)
	made := ask(t, n, "POST", webhooks+"subscribe", key, `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`).want(t, 201)
	var answer struct{ Subscription struct{ ID string } }
	if err := json.Unmarshal([]byte(made.body), &answer); err != nil {
		t.Fatal(err)
	}
	ask(t, n, "DELETE", webhooks+answer.Subscription.ID, key, "").want(t, 200)
	ask(t, n, "POST", newLead, key, someLead).want(t, 201)
	eventually(t, "the origin has the lead", func() (got bool) {
		o.do(func() { got = len(o.leads) == 1 })
		return got
	})
}

// TestFailedReadsWriteNothing has the origin fail whatever a read asks it for. The
// partner is told to try again; nothing was written, at the origin or here, and
// the same requests are answered in full once the origin is well.
func TestFailedReadsWriteNothing(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	o.insights["acc_1"] = []store.Insight{{ID: "ins_1", CreatedAt: time.Now()}}
	o.firings["acc_1"] = []store.Firing{{ID: "fir_1", TriggeredAt: time.Now(), Data: []byte(`{}`)}}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	reads := map[string]string{me: `"acc_1"`, insights: `"ins_1"`, firings: `"fir_1"`, firings + "?limit=1": `"fir_1"`}
	o.do(func() { o.fail[wire.VerbView] = wire.Unavailable })
	for path := range reads {
		ask(t, n, "GET", path, key, "").want(t, 500, "internal_error")
	}
	o.do(func() { delete(o.fail, wire.VerbView) })
	for path, want := range reads {
		ask(t, n, "GET", path, key, "").want(t, 200, want)
	}
	for _, verb := range []string{wire.VerbLeads, wire.VerbSubscribe, wire.VerbRevoke} {
		if asked := o.requests(verb); asked != 0 {
			t.Errorf("reads made the node ask for %s %d times", verb, asked)
		}
	}
	if waiting := n.store.Outbox.Len(); waiting != 0 {
		t.Errorf("reads left %d leads in the outbox", waiting)
	}
}
