package central

import (
	"context"
	"reflect"
	"testing"
	"time"

	"partneredge/store"
	engine "partneredge/store/central/db"
	"partneredge/store/central/fleet"
)

func leadFor(account string) store.Lead {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return store.Lead{
		ID: store.NewID("lead", now), AccountID: account, KeyID: "key_x", Environment: store.Live,
		FirstName: "Ōe", Email: "oe@example.com", ConsentStatus: "express_written", ConsentText: "yes ✓",
		CapturedAt: now.Add(-time.Hour), OutreachAllowed: true, CreatedAt: now,
	}
}

// offered are leads as a node that predates key hashes hands them over.
func offered(leads ...store.Lead) (all []OfferedLead) {
	for _, l := range leads {
		all = append(all, OfferedLead{AcceptedLead: store.AcceptedLead{Lead: l}, Vouched: true, Body: []byte(engine.JSONText(l))})
	}
	return all
}

func TestLeads(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a, b := newAccount(t, db, store.ModeSetup), newAccount(t, db, store.ModeLive)
		good, other := leadFor(a.ID), leadFor(b.ID)
		unknown, nul, sandbox := leadFor("acc_nobody"), leadFor(a.ID), leadFor(a.ID)
		nul.LastName = "a\x00b"
		sandbox.Environment = store.Test
		done := must(db.AddLeads(ctx, "node_x", offered(good, unknown, other, nul, good, sandbox)))(t)
		if want := []string{good.ID, other.ID, good.ID}; !reflect.DeepEqual(done.Committed, want) {
			t.Errorf("committed %v, want %v", done.Committed, want)
		}
		for _, l := range []store.Lead{unknown, nul, sandbox} {
			if done.Quarantined[l.ID] == "" {
				t.Errorf("not in quarantine: %s in %v", l.ID, done)
			}
		}
		if len(done.Quarantined) != 3 || len(done.Rejected) != 0 {
			t.Errorf("refused %v", done)
		}
		changed := good
		changed.FirstName = "somebody else"
		stolen := good
		stolen.AccountID = b.ID
		done = must(db.AddLeads(ctx, "node_x", offered(changed)))(t)
		if len(done.Committed) != 0 || done.Quarantined[good.ID] == "" {
			t.Errorf("with another name: %v", done)
		}
		again := good
		again.CreatedAt = again.CreatedAt.Add(time.Minute)
		earlier := good
		earlier.CreatedAt, earlier.OutreachAllowed = earlier.CreatedAt.Add(-time.Minute), false // its consent was still to come
		done = must(db.AddLeads(ctx, "node_x", offered(again, earlier)))(t)
		if len(done.Committed) != 2 || len(done.Quarantined) != 0 {
			t.Errorf("again: %v", done)
		}
		done = must(db.AddLeads(ctx, "node_x", offered(stolen)))(t)
		if len(done.Committed) != 0 || done.Quarantined[good.ID] == "" {
			t.Errorf("as another account's: %v", done)
		}
		leads, next, err := db.Leads(ctx, a.ID, store.Page{})
		if noError(t, err); next != "" || !reflect.DeepEqual(leads, []store.Lead{good}) {
			t.Errorf("kept %+v, want %+v", leads, good)
		}
		done = must(db.AddLeads(ctx, "node_x", nil))(t)
		if len(done.Committed)+len(done.Quarantined)+len(done.Rejected) != 0 {
			t.Errorf("of none: %v", done)
		}
	})
}

func TestSubscriptions(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a, b := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		s := subscriptionFor(a.ID, store.EventDealChanged, store.EventGoalChanged)
		description := "説明"
		s.Description = &description
		noError(t, db.AddSubscription(ctx, s))
		noError(t, db.AddSubscription(ctx, s))
		got := must(db.Subscription(ctx, s.ID))(t)
		got.Secret = s.Secret // which is not read
		if s.CreatedAt = got.CreatedAt; !reflect.DeepEqual(got, s) {
			t.Errorf("read %+v, want %+v", got, s)
		}
		other := s
		other.TargetURL += "/other"
		wantErr(t, db.AddSubscription(ctx, other), store.ErrConflict)
		other = s
		other.Secret += "00"
		wantErr(t, db.AddSubscription(ctx, other), store.ErrConflict)
		other = s
		other.AccountID = b.ID
		wantErr(t, db.AddSubscription(ctx, other), store.ErrConflict)
		for name, spoil := range map[string]func(*store.Subscription){
			"no events":   func(s *store.Subscription) { s.Events = nil },
			"event":       func(s *store.Subscription) { s.Events = []string{"deal.closed"} },
			"environment": func(s *store.Subscription) { s.Environment = "" },
			"target":      func(s *store.Subscription) { s.TargetURL = "https://x/\x00" },
			"description": func(s *store.Subscription) { d := "\xff"; s.Description = &d },
			"id":          func(s *store.Subscription) { s.ID = "" },
			"secret":      func(s *store.Subscription) { s.Secret = "" },
		} {
			s := subscriptionFor(a.ID, store.EventDealChanged)
			spoil(&s)
			t.Run(name, func(t *testing.T) { wantErr(t, db.AddSubscription(ctx, s), store.ErrInvalid) })
		}
		_, err := db.RevokeSubscription(ctx, b.ID, s.ID)
		wantErr(t, err, store.ErrNotFound) // not its account
		for want := range 2 {
			already, err := db.RevokeSubscription(ctx, a.ID, s.ID)
			if noError(t, err); already != (want == 1) {
				t.Errorf("revocation %d: already %v", want, already)
			}
		}
		if must(db.Subscription(ctx, s.ID))(t).RevokedAt.IsZero() {
			t.Error("revoked_at is not set")
		}
		noError(t, db.AddSubscription(ctx, s)) // the same again, though revoked

		for range subscriptionsMost {
			noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventDealChanged)))
		}
		wantErr(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventDealChanged)), store.ErrLimit)
		noError(t, db.AddSubscription(ctx, subscriptionFor(b.ID, store.EventDealChanged)))
		ofTest := subscriptionFor(a.ID, store.EventDealChanged)
		ofTest.Environment = store.Test
		noError(t, db.AddSubscription(ctx, ofTest))
	})
}

func TestNodes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		n := must(db.AddNode(ctx, store.Node{Name: "n1", Region: "eu-süd", PublicKey: "UABC"}))(t)
		_, err := db.AddNode(ctx, store.Node{Name: "n2", PublicKey: "UABC"})
		wantErr(t, err, store.ErrConflict)
		_, err = db.AddNode(ctx, store.Node{Name: "n2"})
		wantErr(t, err, store.ErrInvalid)
		at := time.Now().UTC().Truncate(time.Microsecond)
		other := must(db.AddNode(ctx, store.Node{Name: "n3", PublicKey: "UDEF"}))(t)
		must(db.SeenNodes(ctx, []fleet.NodeSeen{{ID: n.ID, Version: "1.2", At: at}, {ID: "node_nobody", Version: "1.2", At: at}}))(t)
		must(db.SeenNodes(ctx, []fleet.NodeSeen{{ID: n.ID, Version: "1.1", At: at.Add(-time.Second)}}))(t)
		// One that cannot be kept keeps none of the others from being noted.
		_, err = db.SeenNodes(ctx, []fleet.NodeSeen{{ID: n.ID, Version: "1\x00", At: at.Add(time.Second)}, {ID: other.ID, Version: "1.3", At: at}})
		wantErr(t, err, store.ErrInvalid)
		if got := must(db.Node(ctx, other.ID))(t); got.Version != "1.3" || !got.LastSeenAt.Equal(at) {
			t.Errorf("beside one that is refused: %+v", got)
		}
		n.LastSeenAt, n.Version = at, "1.2"
		if got := must(db.Node(ctx, n.ID))(t); got != n {
			t.Errorf("read %+v, want %+v", got, n)
		}
		revoked, changed, err := db.RevokeNode(ctx, n.ID)
		if noError(t, err); !changed || revoked.RevokedAt.IsZero() {
			t.Errorf("revoked %v %+v", changed, revoked)
		}
		again, changed, err := db.RevokeNode(ctx, n.ID)
		if noError(t, err); changed || again != revoked {
			t.Errorf("revoked twice: %v %+v", changed, again)
		}
	})
}

func TestChanges(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		for range 10 {
			_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n"})
			noError(t, err)
		}
		log := must(db.ChangesSince(ctx, Position{Seq: 7}, 2))(t)
		want := []store.Change{{Seq: 8, Kind: store.ChangeFirings, Ref: a.ID}, {Seq: 9, Kind: store.ChangeFirings, Ref: a.ID}}
		if !reflect.DeepEqual(log.Changes, want) || log.Latest != 10 || log.Reset {
			t.Errorf("changes %+v", log)
		}
		noError(t, db.PruneChanges(ctx, 3))
		for since, want := range map[int64]struct {
			n     int
			reset bool
		}{0: {0, true}, 6: {0, true}, 7: {3, false}, 10: {0, false}, 11: {0, true}} {
			log := must(db.ChangesSince(ctx, Position{Seq: since}, 0))(t)
			if len(log.Changes) != want.n || log.Reset != want.reset || log.Latest != 10 {
				t.Errorf("since %d: %+v; want %+v", since, log, want)
			}
		}
		noError(t, db.PruneChanges(ctx, 0))
		if log, err := db.ChangesSince(ctx, Position{Seq: 10}, 0); err != nil || log.Reset {
			t.Errorf("nothing missed, nothing kept: reset %v, %v", log.Reset, err)
		}
		wantErr(t, db.PruneChanges(ctx, -1), store.ErrInvalid)
	})
}

func TestViews(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeSetup)
		insights := must(db.Insights(ctx, a.ID, time.Time{}, 0))(t)
		if insights.History || insights.Seq != 0 || len(insights.Items) != 0 {
			t.Errorf("of a new account: %+v", insights)
		}
		at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
		added, event, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{
			{Headline: "same", CreatedAt: at}, {Headline: "same", CreatedAt: at}, {Headline: "older", CreatedAt: at.Add(-time.Hour)},
		})
		noError(t, err)
		if event == nil || !event.Silenced {
			t.Errorf("event of an account that is not live: %+v", event)
		}
		if !added[1].CreatedAt.Equal(at.Add(time.Microsecond)) {
			t.Errorf("moved to %v", added[1].CreatedAt)
		}
		insights = must(db.Insights(ctx, a.ID, time.Time{}, 2))(t)
		if !insights.History || insights.Seq != 1 || !reflect.DeepEqual(insights.Items, []store.Insight{added[1], added[0]}) {
			t.Errorf("insights %+v", insights)
		}
		insights = must(db.Insights(ctx, a.ID, at.Add(time.Microsecond), 0))(t)
		if !insights.History || len(insights.Items) != 0 {
			t.Errorf("since the newest: %+v", insights)
		}

		var firings []store.Firing
		for range 5 {
			f, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "drop", TriggeredAt: at, Data: []byte(`{"a":"\u0001"}`), Action: "told"})
			noError(t, err)
			firings = append([]store.Firing{f}, firings...)
		}
		var seen []store.Firing
		before := time.Time{}
		for more := true; more; before = seen[len(seen)-1].TriggeredAt {
			view := must(db.Firings(ctx, a.ID, before, 2))(t)
			if view.Seq != 6 || len(view.Items) == 0 {
				t.Fatalf("firings before %v: %+v", before, view)
			}
			seen, more = append(seen, view.Items...), view.More
		}
		if !reflect.DeepEqual(seen, firings) {
			t.Errorf("firings %+v, want %+v", seen, firings)
		}
		// What was taken before it was refused is served as it is.
		const taken = `{"a":"\ud83d\u0000","b":1e400}`
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `UPDATE firings SET data = ?`, taken)
			return err
		}))
		for _, f := range must(db.Firings(ctx, a.ID, time.Time{}, 0))(t).Items {
			if string(f.Data) != taken {
				t.Errorf("trigger data %s, want %s", f.Data, taken)
			}
		}
		if must(db.Firings(ctx, a.ID, time.Time{}, 5))(t).More {
			t.Error("more, of exactly as many as asked for")
		}
		for _, data := range []string{"[]", "null", "{", "{}x", "\"a\"", "{\"a\":\"\xff\"}", `{"a":"\ud83d"}`, `{"a":"\u0000"}`, `{"a":1e400}`} {
			_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Data: []byte(data)})
			wantErr(t, err, store.ErrInvalid)
		}
		for _, at := range []time.Time{time.Unix(0, 0), time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, TriggeredAt: at})
			wantErr(t, err, store.ErrInvalid)
		}
		for _, bad := range badTexts {
			_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: bad})
			wantErr(t, err, store.ErrInvalid)
			_, _, err = db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "fine"}, {Detail: bad}})
			wantErr(t, err, store.ErrInvalid)
		}
		if seq := must(db.Firings(ctx, a.ID, time.Time{}, 0))(t).Seq; seq != 6 {
			t.Errorf("what was refused left a change: seq %d", seq)
		}
	})
}
