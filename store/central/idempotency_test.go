package central

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/idempotency"
)

// keyed is a context whose writes have an idempotency key.
func keyed(key, digest string) (context.Context, *idempotency.Request) {
	i := &idempotency.Request{Key: key, Digest: digest}
	return idempotency.With(context.Background(), i), i
}

// TestIngestOnce adds each kind of record twice with one key: the second time
// nothing is added, and the answer is that of the first.
func TestIngestOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		now := time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a := newAccount(t, db, store.ModeLive)
		for kind, add := range map[string]func(context.Context) (any, *store.Event, error){
			"run": func(ctx context.Context) (any, *store.Event, error) {
				return db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "a"}, {Headline: "b"}})
			},
			"firing": func(ctx context.Context) (any, *store.Event, error) {
				return db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "x", Action: "y", Data: []byte(`{"n":1}`)})
			},
			"contact": func(ctx context.Context) (any, *store.Event, error) {
				return db.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: "phone"})
			},
		} {
			began, before := now, len(eventsOf(t, db, a.ID))
			ctx, first := keyed("key 1", "asked")
			record, event, err := add(ctx)
			noError(t, err)
			now = now.Add(idempotency.TTL - time.Second)
			ctx, second := keyed("key 1", "asked")
			again, repeated, err := add(ctx)
			noError(t, err)
			if !reflect.DeepEqual(again, record) || repeated.ID != event.ID || repeated.Body != nil || !repeated.CreatedAt.Equal(began) {
				t.Errorf("%s: repeated as %+v %+v, was %+v %+v", kind, again, repeated, record, event)
			}
			if first.Repeated || !second.Repeated {
				t.Errorf("%s: repeated %v, then %v", kind, first.Repeated, second.Repeated)
			}
			ctx, _ = keyed("key 1", "something else")
			if _, _, err = add(ctx); !errors.Is(err, idempotency.ErrKey) || !errors.Is(err, store.ErrConflict) {
				t.Errorf("%s: other content: %v", kind, err)
			}
			now = now.Add(time.Second)
			ctx, _ = keyed("key 1", "something else")
			_, anew, err := add(ctx)
			noError(t, err)
			if anew.ID == event.ID {
				t.Errorf("%s: repeated after a day", kind)
			}
			if events := eventsOf(t, db, a.ID)[before:]; len(events) != 2 {
				t.Errorf("%s: %d events, want 2", kind, len(events))
			}
			now = now.Add(48 * time.Hour)
		}
		ctx, _ := keyed("key 2", "asked")
		_, _, err := db.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: "phone"})
		noError(t, err)
		expired, cursor := now.Add(-idempotency.TTL), new(idempotency.PruneCursor)
		for _, want := range []int{2, 1, 0} {
			if n := must(db.PruneAnswers(ctx, expired, 2, cursor))(t); n != want {
				t.Errorf("%d expired answers went, want %d", n, want)
			}
		}
		_, err = db.PruneAnswers(ctx, expired, 0, cursor)
		wantErr(t, err, store.ErrInvalid)
		var kept int
		noError(t, db.db.QueryRow(context.Background(), `SELECT count(*) FROM idempotency`).Scan(&kept))
		if kept != 1 {
			t.Errorf("%d records kept, want that of the last key alone", kept)
		}
	})
}

// TestRefusedIngestLeavesItsKey has a write with a key fail after it has written,
// and be mended.
func TestRefusedIngestLeavesItsKey(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		insight := must2(db.AddCoachingRun(context.Background(), a.ID, []store.Insight{{Headline: "a"}}))(t)[0]
		for range 2 {
			ctx, _ := keyed("key", "taken id")
			if _, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "b"}, insight}); !errors.Is(err, store.ErrConflict) || errors.Is(err, idempotency.ErrKey) {
				t.Fatalf("an id that is taken: %v", err)
			}
		}
		ctx, i := keyed("key", "mended")
		if added := must2(db.AddCoachingRun(ctx, a.ID, []store.Insight{{Headline: "b"}}))(t); i.Repeated || len(added) != 1 {
			t.Errorf("added %+v, repeated %v", added, i.Repeated)
		}
	})
}

// TestParallelIngestOnce sends a firing with one key from many callers of two
// processes at once.
func TestParallelIngestOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		dbs := []*DB{open(t, p), open(t, p)}
		a := newAccount(t, dbs[0], store.ModeLive)
		ids := make(chan string, 64)
		next := make(chan int, 64)
		for i := range cap(next) {
			next <- i
		}
		inParallel(16, func() {
			for range 4 {
				ctx, _ := keyed(strings.Repeat("k", 255), "asked")
				_, e, err := dbs[<-next%2].AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "x", Action: "y"})
				if err != nil {
					t.Error(err)
					return
				}
				ids <- e.ID
			}
		})
		close(ids)
		first := <-ids
		for id := range ids {
			if id != first {
				t.Errorf("a second event %s beside %s", id, first)
			}
		}
	})
}

// must2 is must of what a write of a source returns, without its event.
func must2[T any](v T, _ *store.Event, err error) func(testing.TB) T { return must(v, err) }

// TestAnswerGivenAnewIsNotPruned has one origin remove an expired answer that another has just
// given anew and not committed: the new one stays.
func TestAnswerGivenAnewIsNotPruned(t *testing.T) {
	ctx, p := t.Context(), place{"postgres", centraltest.Postgres(t)}
	clock := &fakeClock{time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)}
	giver, pruner := openWith(t, p, Config{Now: clock.now}), openWith(t, p, Config{Now: clock.now})
	account := newAccount(t, giver, store.ModeLive).ID
	give := func() (*idempotency.Request, error) {
		keyed, r := keyed("key", "asked")
		_, _, err := giver.AddContact(keyed, store.Contact{AccountID: account, ClientID: "c", Channel: "phone"})
		return r, err
	}
	must(give())(t)
	clock.at = clock.at.Add(idempotency.TTL + time.Minute)

	// Until this ends, the answer is written anew and its event is not.
	holding := must(p.another(t).BeginTx(ctx, nil))(t)
	defer func() { _ = holding.Rollback() }()
	_, err := holding.ExecContext(ctx, `LOCK TABLE events IN SHARE MODE`)
	noError(t, err)
	given, pruned := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := give()
		given <- err
	}()
	waitForLocks(t, pruner, 1, given)
	go func() {
		_, err := pruner.PruneAnswers(ctx, clock.at.Add(-idempotency.TTL), 10, new(idempotency.PruneCursor))
		pruned <- err
	}()
	waitForLocks(t, pruner, 2, pruned)
	noError(t, holding.Rollback())
	noError(t, <-given)
	noError(t, <-pruned)
	if r := must(give())(t); !r.Repeated {
		t.Error("the answer that was given anew is gone")
	}
}
