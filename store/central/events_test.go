package central

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var allEvents = []string{store.EventInsightCreated, store.EventSentinelFired, store.EventDealChanged,
	store.EventClientContacted, store.EventGoalChanged}

// TestEnvelopes compares each type's envelope, byte for byte, with a golden
// file, but for the event's own id.
func TestEnvelopes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		now := time.Date(2026, 7, 8, 9, 10, 11, 0, time.FixedZone("", -7*3600))
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a := must(db.CreateAccount(ctx, store.Account{ID: "acc_1", Mode: store.ModeLive}))(t)
		at := now.Add(-time.Hour).Add(1500 * time.Nanosecond)
		var events []*store.Event
		add := func(e *store.Event, err error) {
			t.Helper()
			made := now.Add(time.Duration(len(events)) * time.Microsecond)
			if noError(t, err); e == nil || e.Silenced || e.AccountID != a.ID || !e.CreatedAt.Equal(made) {
				t.Fatalf("event %+v", e)
			}
			events = append(events, e)
		}
		_, e, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{
			{ID: "ins_1", Headline: "older", CreatedAt: at.Add(-time.Hour)},
			{ID: "ins_2", Headline: "Ring <b>Łukasz</b> & co", Detail: "not sent", CreatedAt: at},
			{ID: "ins_3", Headline: "oldest", CreatedAt: at.Add(-2 * time.Hour)},
		})
		add(e, err)
		_, e, err = db.AddFiring(ctx, store.Firing{ID: "fir_1", AccountID: a.ID, Name: "price_drop", Action: "notified_agent", TriggeredAt: at, Data: []byte(`{"not":"sent"}`)})
		add(e, err)
		deal, err := db.PutDeal(ctx, store.Deal{ID: "d-1", AccountID: a.ID, Stage: "offer"})
		if noError(t, err); deal.Event != nil {
			t.Errorf("a deal's first stage emitted %s", deal.Event.Body)
		}
		deal, err = db.PutDeal(ctx, store.Deal{ID: "d-1", AccountID: a.ID, Stage: "under_contract", ChangedAt: at})
		add(deal.Event, err)
		_, e, err = db.AddContact(ctx, store.Contact{ID: "con_1", AccountID: a.ID, ClientID: "client \"7\"", Channel: "phone", OccurredAt: at})
		add(e, err)
		_, err = db.PutGoal(ctx, store.Goal{ID: "g-1", AccountID: a.ID, Pace: "on_pace"})
		noError(t, err)
		goal, err := db.PutGoal(ctx, store.Goal{ID: "g-1", AccountID: a.ID, Pace: "behind"})
		add(goal.Event, err)
		for i, e := range events {
			if e.Type != allEvents[i] || !json.Valid(e.Body) {
				t.Errorf("event %d is %s: %s", i, e.Type, e.Body)
			}
			golden(t, e.Type+".json", strings.ReplaceAll(string(e.Body), e.ID, "evt_ID"))
			if kept := must(db.Event(ctx, e.ID))(t); string(kept.Body) != string(e.Body) || kept.Type != e.Type || !kept.CreatedAt.Equal(e.CreatedAt) {
				t.Errorf("kept %+v, want %+v", kept, e)
			}
		}
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "envelopes", name)
	if *update {
		noError(t, os.WriteFile(path, []byte(got+"\n"), 0o644))
	}
	want, err := os.ReadFile(path)
	if noError(t, err); got+"\n" != string(want) {
		t.Errorf("%s\n got %s\nwant %s", path, got, want)
	}
}

// TestDealsAndGoals puts deals and goals through values.
func TestDealsAndGoals(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a, b := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		steps := []struct {
			account, value   string
			changed, emitted bool
			at               time.Time // as kept
		}{
			{a.ID, "behind", true, false, at},
			{a.ID, "behind", false, false, at},
			{a.ID, "ahead", true, true, at.Add(2 * time.Hour)},
			{b.ID, "ahead", true, false, at.Add(3 * time.Hour)},
			{a.ID, "behind", true, true, at.Add(4 * time.Hour)},
		}
		for i, s := range steps {
			when := at.Add(time.Duration(i) * time.Hour)
			d := must(db.PutDeal(ctx, store.Deal{ID: "x", AccountID: s.account, Stage: s.value, ChangedAt: when}))(t)
			if d.Changed != s.changed || (d.Event != nil) != s.emitted || !d.Record.ChangedAt.Equal(s.at) || d.Record.Stage != s.value {
				t.Errorf("deal, step %d: %+v", i, d)
			}
			g := must(db.PutGoal(ctx, store.Goal{ID: "x", AccountID: s.account, Pace: s.value, ChangedAt: when}))(t)
			if g.Changed != s.changed || (g.Event != nil) != s.emitted || !g.Record.ChangedAt.Equal(s.at) || g.Record.Pace != s.value {
				t.Errorf("goal, step %d: %+v", i, g)
			}
		}
		for _, bad := range append([]string{"", "later"}, badTexts...) {
			_, err := db.PutGoal(ctx, store.Goal{ID: "x", AccountID: a.ID, Pace: bad})
			wantErr(t, err, store.ErrInvalid)
			_, _, err = db.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: bad})
			wantErr(t, err, store.ErrInvalid)
		}
		for _, bad := range append([]string{"", strings.Repeat("x", 201)}, badTexts...) {
			_, err := db.PutDeal(ctx, store.Deal{ID: bad, AccountID: a.ID, Stage: "s"})
			wantErr(t, err, store.ErrInvalid)
		}
		for _, bad := range append([]string{"", strings.Repeat("x", 1<<20+1)}, badTexts...) {
			_, err := db.PutDeal(ctx, store.Deal{ID: "y", AccountID: a.ID, Stage: bad})
			wantErr(t, err, store.ErrInvalid)
		}
		if latest := must(db.ChangesSince(ctx, Position{}, 0))(t).Latest; latest != 0 {
			t.Errorf("%d changes of what no node holds", latest)
		}
	})
}

// TestEventTimesRise: an account's events are made one after the other, by their own
// created_at, whatever the times in their data, while the clock stands or is put back, and
// for another process too. Their deliveries are due by the clock.
func TestEventTimesRise(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)
		cfg := Config{Now: func() time.Time { return now }}
		db := openWith(t, p, cfg)
		a, changedAt := newAccount(t, db, store.ModeLive), now
		noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventDealChanged)))
		must(db.PutDeal(ctx, store.Deal{ID: "d", AccountID: a.ID, Stage: "none"}))(t)
		var last time.Time
		move := func(stage string, want time.Time) {
			t.Helper()
			changedAt = changedAt.Add(-time.Hour)
			put := must(db.PutDeal(ctx, store.Deal{ID: "d", AccountID: a.ID, Stage: stage, ChangedAt: changedAt}))(t)
			var envelope struct {
				CreatedAt time.Time `json:"created_at"`
			}
			noError(t, json.Unmarshal(put.Event.Body, &envelope))
			kept := must(db.Event(ctx, put.Event.ID))(t)
			if !envelope.CreatedAt.Equal(want) || !kept.CreatedAt.Equal(want) || !want.After(last) {
				t.Errorf("%s: sent with %v, kept with %v, want %v", stage, envelope.CreatedAt, kept.CreatedAt, want)
			}
			last = want
			made, _, err := db.Deliveries(ctx, deliveries.Filter{EventID: kept.ID}, store.Page{})
			if noError(t, err); len(made) != 1 || !made[0].NextAt.Equal(now) || !made[0].CreatedAt.Equal(now) {
				t.Errorf("%s: deliveries %+v, want one that is due at %v", stage, made, now)
			}
		}
		first := now
		move("first", first)
		move("the clock stands", first.Add(time.Microsecond))
		now = now.Add(-time.Hour)
		move("the clock was put back", first.Add(2*time.Microsecond))
		noError(t, db.Close())
		db = openWith(t, p, cfg)
		move("another process", first.Add(3*time.Microsecond))
		now = now.Add(2 * time.Hour)
		move("the clock is past it", now)
	})
}

// TestFanOut sends each event to those subscriptions alone that are to have it.
func TestFanOut(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a, other := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		add := func(account string, env store.Environment, events ...string) string {
			s := subscriptionFor(account, events...)
			s.Environment = env
			noError(t, db.AddSubscription(ctx, s))
			return s.ID
		}
		one, all := add(a.ID, store.Live, store.EventClientContacted), add(a.ID, store.Live, allEvents...)
		revoked := add(a.ID, store.Live, allEvents...)
		add(a.ID, store.Live, store.EventDealChanged)
		add(a.ID, store.Test, allEvents...)
		add(other.ID, store.Live, allEvents...)
		_, err := db.RevokeSubscription(ctx, a.ID, revoked)
		noError(t, err)
		contact := func() *store.Event {
			_, e, err := db.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: "email"})
			noError(t, err)
			return e
		}
		to := func(e *store.Event) string {
			items, _, err := db.Deliveries(ctx, deliveries.Filter{EventID: e.ID}, store.Page{})
			noError(t, err)
			names := map[string]string{one: "one", all: "all"}
			got := map[string]bool{}
			for _, d := range items {
				if d.State != store.StatePending || d.EventType != e.Type || d.AccountID != a.ID || d.EventID != e.ID {
					t.Errorf("delivery %+v", d)
				}
				got[names[d.SubscriptionID]] = true
			}
			switch {
			case len(items) != len(got):
				return "someone twice"
			case got[""]:
				return "a stranger"
			case got["one"] && got["all"]:
				return "one, all"
			case len(got) == 0:
				return "nobody"
			}
			return "some"
		}
		if got := to(contact()); got != "one, all" {
			t.Errorf("went to %s, want one, all", got)
		}
		setup, live := store.ModeSetup, store.ModeLive
		_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &setup})
		noError(t, err)
		silenced := contact()
		if kept := must(db.Event(ctx, silenced.ID))(t); !silenced.Silenced || !kept.Silenced {
			t.Errorf("not silenced: %+v", kept)
		}
		_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &live})
		noError(t, err)
		if got := to(silenced); got != "nobody" {
			t.Errorf("a silenced event went to %s", got)
		}
		if got := to(contact()); got != "one, all" {
			t.Errorf("live again, went to %s", got)
		}
	})
}

// TestOnCommit counts changes and deliveries of commits, in their order.
func TestOnCommit(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		var seqs []int64
		deliveries := 0
		db := open(t, p)
		db.OnCommit(func(c Commit) {
			for _, change := range c.Changes {
				seqs = append(seqs, change.Seq)
			}
			deliveries += c.Deliveries
		})
		a := newAccount(t, db, store.ModeLive)
		for range 3 {
			noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired)))
		}
		const callers, each = 8, 10
		inParallel(callers, func() {
			for range each {
				if _, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID}); err != nil {
					t.Error(err)
				}
			}
		})
		noError(t, db.Close()) // the writer has told all
		for i, seq := range seqs {
			if seq != int64(i+1) {
				t.Fatalf("told of %v", seqs)
			}
		}
		if len(seqs) == 0 || deliveries != 3*callers*each {
			t.Errorf("told of %d changes, %d deliveries", len(seqs), deliveries)
		}
	})
}

// TestOnCommitSubscribers expects every subscriber to be called before a write
// returns, with what that write leaves to do, and not after it unsubscribed.
func TestOnCommitSubscribers(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		var first, second []Commit
		unsubscribe := db.OnCommit(func(c Commit) { first = append(first, c) })
		db.OnCommit(func(c Commit) { second = append(second, c) })
		a := newAccount(t, db, store.ModeLive)
		k := must(db.CreateKey(ctx, keyFor(a.ID)))(t)
		if len(first)+len(second) != 0 {
			t.Errorf("an account and a key, which no node holds yet, are announced: %+v", first)
		}
		_, _, err := db.RevokeKey(ctx, k.ID)
		noError(t, err)
		want := []Commit{{Changes: []store.Change{{Seq: 1, Kind: store.ChangeKey, Ref: k.ID, Gone: true}}}}
		if !reflect.DeepEqual(first, want) || !reflect.DeepEqual(second, want) {
			t.Errorf("a revocation: %+v and %+v, want %+v", first, second, want)
		}
		unsubscribe()
		unsubscribe()

		r := must(db.AddRollout(ctx, store.Rollout{Release: "rel_1", Digest: "sha256:1", State: store.RollingOut, Stages: []int{100}}))(t)
		stale := r
		_, _, err = db.StepRollout(ctx, r)
		noError(t, err)
		_, _, err = db.StepRollout(ctx, stale) // writes nothing
		noError(t, err)
		want = append(want, Commit{Rollouts: true}, Commit{Rollouts: true})
		if len(first) != 1 || !reflect.DeepEqual(second, want) {
			t.Errorf("two steps of a rollout: %+v and %+v, want %+v", first[1:], second, want)
		}
	})
}
