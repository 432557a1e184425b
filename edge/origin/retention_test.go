package origin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
	"partneredge/store/logtest"
)

// What ended longer ago than the retention goes, with its event; what waits, and
// what is younger, stays. Two origins that do it at once are as good as one.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Retention.Deliveries = -1 })
	account := f.account("live")
	f.subscribe("whs_r", account, "key_1")
	var events []string
	for range 3 {
		events = append(events, f.must(201, "POST", accounts+"/"+account+"/sentinel-firings",
			object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string))
	}
	log, _, err := f.config.DB.Deliveries(t.Context(), deliveries.Filter{SubscriptionID: "whs_r"}, store.Page{})
	if err != nil || len(log) != 3 {
		t.Fatal(log, err)
	}
	for i, d := range log[:2] {
		if err := f.config.DB.RecordOutcomes(t.Context(), []deliveries.Outcome{{State: store.StateDelivered, Attempt: store.Attempt{
			ID: fmt.Sprint("dlv_r", i), DeliveryID: d.ID, Number: 1, StartedAt: time.Now(), Status: 200,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := f.config.DB.PruneDeliveries(t.Context(), time.Now().Add(-time.Hour), 10, new(deliveries.PruneCursor)); n != 0 || err != nil {
		t.Errorf("of what is younger, %d rows are dropped, %v", n, err)
	}
	if err := f.config.DB.NoteRetentionRound(t.Context(), central.RetentionRound{At: time.Now().Add(defaultRetention)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for range 2 {
		go func() {
			r := newRetention(f.config.DB, Retention{}, f.config.Log)
			r.clock.now = func() time.Time { return time.Now().Add(defaultRetention + time.Hour) }
			r.run(ctx, 5*time.Millisecond)
			ended <- struct{}{}
		}()
	}
	f.eventually("only what waits is there", func() bool {
		have := 0
		for _, id := range events {
			if _, err := f.config.DB.Event(t.Context(), id); err == nil {
				have++
			}
		}
		left, _, err := f.config.DB.Deliveries(t.Context(), deliveries.Filter{SubscriptionID: "whs_r"}, store.Page{})
		return err == nil && have == 1 && len(left) == 1 && left[0].State == store.StatePending
	})
	cancel()
	next(f, ended, "end of retention")
	next(f, ended, "end of retention")
}

// TestRetentionEmptiesTheLog: what was removed can be read in SQLite's log until a round
// of retention.
func TestRetentionEmptiesTheLog(t *testing.T) {
	t.Parallel()
	path := schema.Copy(t, filepath.Join(t.TempDir(), "central.db"))
	d, err := central.Open(t.Context(), central.Config{URL: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.CreateAccount(t.Context(), store.Account{Name: "a", Mode: store.ModeSetup, Agent: store.Agent{Email: "a@example.com", FullName: "a"}}); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		log, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return log.Size()
	}
	if size() == 0 {
		t.Fatal("the log is empty before")
	}
	ended, cancel := context.WithCancel(t.Context())
	r := newRetention(d, Retention{}, slog.New(slog.DiscardHandler))
	empty := r.empty
	r.empty = func(ctx context.Context) error {
		defer cancel() // and the round is the only one
		return empty(ctx)
	}
	r.run(ended, time.Hour)
	if n := size(); n > 0 {
		t.Errorf("the log has %d bytes after a round", n)
	}
}

// Answers to idempotency keys go after their day whatever else is kept, and leads in the
// quarantine as leads do: discarded, and forgotten 90 days later.
func TestRetentionOfAnswersAndQuarantine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("setup")
	ctx, day := t.Context(), 24*time.Hour
	keyed := idempotency.With(ctx, &idempotency.Request{Key: "k", Digest: "d"})
	if _, _, err := f.config.DB.AddContact(keyed, store.Contact{AccountID: account, ClientID: "c", Channel: "phone"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.config.DB.AddLeads(ctx, "node_x", []central.OfferedLead{central.ReadLead("", []byte(`{"id":"lead_x","first_name":"Ana"}`))}); err != nil {
		t.Fatal(err)
	}
	listed, _, err := f.config.DB.QuarantinedLeads(ctx, store.Span{}, store.Page{})
	if err != nil || len(listed) != 1 {
		t.Fatal(listed, err)
	}
	r := newRetention(f.config.DB, Retention{Leads: 7 * day}, f.config.Log)
	at := time.Now()
	r.clock.now = func() time.Time { return at }
	later := func(by time.Duration) (answered bool, lead store.QuarantineState) {
		at = time.Now().Add(by)
		if err := f.config.DB.NoteRetentionRound(ctx, central.RetentionRound{At: at}); err != nil {
			t.Fatal(err)
		}
		r.round(ctx)
		q, err := f.config.DB.QuarantinedLead(ctx, listed[0].ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		answer := &idempotency.Request{Key: "k", Digest: "other"}
		_, _, err = f.config.DB.AddContact(idempotency.With(ctx, answer), store.Contact{AccountID: account, ClientID: "refused", Channel: "phone"})
		return errors.Is(err, idempotency.ErrKey), q.State
	}
	if answered, lead := later(day - time.Minute); !answered || lead != store.QuarantineWaiting {
		t.Errorf("before a day: answered %v, lead %q", answered, lead)
	}
	if answered, lead := later(day + time.Minute); answered || lead != store.QuarantineWaiting {
		t.Errorf("after a day: answered %v, lead %q", answered, lead)
	}
	if _, lead := later(7*day + time.Minute); lead != store.QuarantineDiscarded {
		t.Errorf("after a week: lead %q", lead)
	}
	if _, lead := later(89 * day); lead != store.QuarantineDiscarded {
		t.Errorf("after 89 days: lead %q", lead)
	}
	if _, lead := later(91 * day); lead != "" {
		t.Errorf("after 91 days: lead %q", lead)
	}
}

// TestRevokedSubscriptionsGo: subscriptions that were revoked longer ago than deliveries are kept
// go, also those behind more than a slice of others. One that has a delivery left or is not
// revoked stays, and its account can be erased with it.
func TestRevokedSubscriptionsGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, ctx, account := f.config.DB, t.Context(), f.account("live")
	revoke := func(id string) {
		if _, err := d.RevokeSubscription(ctx, account, id); err != nil {
			t.Fatal(err)
		}
	}
	f.subscribe("whs_active", account, "key_1")
	f.subscribe("whs_delivered", account, "key_1")
	f.must(201, "POST", accounts+"/"+account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	revoke("whs_delivered")
	for i := range sliceFirst + 10 {
		id := fmt.Sprint("whs_", i)
		f.subscribe(id, account, "key_1")
		revoke(id)
	}
	at := time.Now()
	r := newRetention(d, Retention{Deliveries: time.Hour}, f.config.Log)
	r.clock.now = func() time.Time { return at }
	left := func(ahead time.Duration) (ids []string) {
		at = time.Now().Add(ahead)
		if err := d.NoteRetentionRound(ctx, central.RetentionRound{At: at}); err != nil {
			t.Fatal(err)
		}
		r.round(ctx)
		for page := (store.Page{Limit: 200}); ; {
			some, next, err := d.Subscriptions(ctx, account, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range some {
				ids = append(ids, s.ID)
			}
			if page.Cursor = next; next == "" {
				return ids
			}
		}
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(job pruning) bool { return job.what == "deliveries and events" })
	if ids := left(23 * time.Hour); len(ids) != sliceFirst+12 {
		t.Errorf("%d subscriptions are left while a repeated request may ask for them", len(ids))
	}
	if ids := left(25 * time.Hour); !slices.Equal(ids, []string{"whs_delivered", "whs_active"}) {
		t.Errorf("%d subscriptions are left, among them %v", len(ids), ids[:min(3, len(ids))])
	}
	if erased, err := d.EraseAccount(ctx, account); err != nil || erased["subscriptions"] != 2 || erased["deliveries"] != 2 {
		t.Errorf("erased %v, %v", erased, err)
	}
}

// TestRetentionOfACentury: what is kept for so long that it begins before 1970 stays, and a
// round has nothing to warn of.
func TestRetentionOfACentury(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const century = 100 * 365 * 24 * time.Hour
	var log logtest.Buffer
	r := newRetention(f.config.DB, Retention{century, century, century, century, century, century}, slog.New(slog.NewTextHandler(&log, nil)))
	if r.round(t.Context()); log.String() != "" {
		t.Errorf("a round logs:\n%s", log.String())
	}
}

// An origin does it by itself, from its start.
func TestRetentionOfAnOrigin(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	f := newFixture(t, databaseAt(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }),
		func(c *Config) { c.Retention.Deliveries = -1 })
	account := f.account("setup")
	id := f.must(201, "POST", accounts+"/"+account+"/sentinel-firings",
		object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string)
	f.stop()
	f.config.Retention.Deliveries = 0
	ahead.Store(int64(31 * 24 * time.Hour))
	if err := f.config.DB.NoteRetentionRound(t.Context(), central.RetentionRound{At: f.config.DB.Now()}); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.eventually("the event is gone", func() bool {
		_, err := f.config.DB.Event(t.Context(), id)
		return err != nil
	})
}

// Slices grow while they are quick, and are small again as soon as one holds others up.
func TestSlicesAdapt(t *testing.T) {
	t.Parallel()
	size := sliceFirst
	for range 20 { // 10 us a row
		size = nextSlice(size, time.Duration(size)*10*time.Microsecond)
	}
	if took := time.Duration(size) * 10 * time.Microsecond; took < sliceTime/2 || took > sliceTime {
		t.Errorf("with rows of 10 us a slice takes %v, want about %v", took, sliceTime)
	}
	if size := nextSlice(size, 10*sliceTime); size > sliceMost/10 {
		t.Errorf("a slice of %d rows follows one that took ten times too long", size)
	}
	if size := nextSlice(sliceLeast, time.Minute); size != sliceLeast {
		t.Errorf("a slice of %d rows", size)
	}
	if size := nextSlice(sliceMost, 0); size != sliceMost {
		t.Errorf("a slice of %d rows", size)
	}
}
