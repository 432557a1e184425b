package central

import (
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/idempotency"
)

// TestSubscribeOnce: a request that is repeated gets what the first one made, with
// its secret, for a day.
func TestSubscribeOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a, b := newAccount(t, db, store.ModeLive), newAccount(t, db, store.ModeLive)
		subscribe := func(account, key, digest string) (store.Subscription, bool, error) {
			once := idempotency.Request{Key: key, Digest: digest}
			kept, err := db.Subscribe(ctx, subscriptionFor(account, store.EventSentinelFired), &once)
			return kept, once.Repeated, err
		}
		once := idempotency.Request{Key: "k", Digest: "d"}
		if _, err := db.RepeatedSubscription(ctx, a.ID, &once); err != nil || once.Repeated {
			t.Errorf("repeated before the first: %v, %v", once, err)
		}
		first, repeated, err := subscribe(a.ID, "k", "d")
		if noError(t, err); repeated {
			t.Error("the first is taken for a repetition")
		}
		again, repeated, err := subscribe(a.ID, "k", "d")
		if noError(t, err); !repeated || again.ID != first.ID || again.Secret != first.Secret || !again.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("repeated %v: %+v, want %+v", repeated, again, first)
		}
		if kept, err := db.RepeatedSubscription(ctx, a.ID, &once); err != nil || !once.Repeated || kept.Secret != first.Secret {
			t.Errorf("%+v, %+v, %v", once, kept, err)
		}
		_, _, err = subscribe(a.ID, "k", "other")
		wantErr(t, err, idempotency.ErrKey)
		_, err = db.RepeatedSubscription(ctx, a.ID, &idempotency.Request{Key: "k", Digest: "other"})
		wantErr(t, err, idempotency.ErrKey)
		if _, repeated, err = subscribe(b.ID, "k", "d"); err != nil || repeated {
			t.Errorf("another account's: %v, %v", repeated, err)
		}
		if _, err = db.RevokeSubscription(ctx, a.ID, first.ID); err != nil {
			t.Fatal(err)
		}
		again, repeated, err = subscribe(a.ID, "k", "d")
		wantErr(t, err, idempotency.ErrKey)
		kept, err := db.RepeatedSubscription(ctx, a.ID, &once)
		wantErr(t, err, idempotency.ErrKey)
		if repeated || once.Repeated || again.Secret != "" || kept.Secret != "" {
			t.Errorf("after it was revoked: %v, %+v, %+v, %+v", repeated, once, again, kept)
		}
		now = now.Add(24 * time.Hour)
		if again, repeated, err = subscribe(a.ID, "k", "d"); err != nil || repeated || again.ID == first.ID {
			t.Errorf("a day later: %v, %v", repeated, err)
		}
	})
}

// TestAbandonSubscription: what was asked for under an idempotency key and never
// answered is revoked, and its key is free again, unless it was repeated.
func TestAbandonSubscription(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		subscribe := func(key string) store.Subscription {
			return must(db.Subscribe(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &idempotency.Request{Key: key, Digest: "d"}))(t)
		}
		lost, known := subscribe("lost"), subscribe("known")
		subscribe("known") // repeated
		for _, s := range []store.Subscription{lost, known} {
			for range 2 {
				_, err := db.AbandonSubscription(ctx, a.ID, s.ID, map[string]string{lost.ID: "lost", known.ID: "known"}[s.ID])
				noError(t, err)
			}
		}
		if s := must(db.Subscription(ctx, lost.ID))(t); s.RevokedAt.IsZero() {
			t.Error("the one that nobody knows is active")
		}
		if s := must(db.Subscription(ctx, known.ID))(t); !s.RevokedAt.IsZero() {
			t.Error("the one that was repeated is revoked")
		}
		if s := subscribe("lost"); s.ID == lost.ID {
			t.Error("the key is not free again")
		}
		_, err := db.AbandonSubscription(ctx, a.ID, "whs_none", "none")
		wantErr(t, err, store.ErrNotFound)
		if _, err := db.AbandonSubscription(ctx, a.ID, lost.ID, "lost"); err != nil { // the key is another's now
			t.Error(err)
		}
		if s := subscribe("lost"); s.ID == lost.ID || !s.RevokedAt.IsZero() {
			t.Errorf("abandoning the first ended the second: %+v", s)
		}
	})
}

// TestAbandonLate: what a node gives up a day later may be in use, since the request
// was repeated at another node: it stays active.
func TestAbandonLate(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a := newAccount(t, db, store.ModeLive)
		subscribe := func(key string) store.Subscription {
			return must(db.Subscribe(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &idempotency.Request{Key: key, Digest: "d"}))(t)
		}
		first, second := subscribe("first"), subscribe("second")
		for key, s := range map[string]store.Subscription{"first": first, "second": second} {
			if again := subscribe(key); again.ID != s.ID {
				t.Fatalf("repeated: %+v", again)
			}
		}
		now = now.Add(25 * time.Hour)
		if s := subscribe("first"); s.ID == first.ID { // removes the row of the second
			t.Fatal("the key is not free after a day")
		}
		for key, s := range map[string]store.Subscription{"first": first, "second": second} {
			if already, err := db.AbandonSubscription(ctx, a.ID, s.ID, key); err != nil || already {
				t.Errorf("%s: %v, %v", key, already, err)
			}
			if s := must(db.Subscription(ctx, s.ID))(t); !s.RevokedAt.IsZero() {
				t.Errorf("%s, whose partner has its secret, is revoked", key)
			}
		}
	})
}

// TestSubscribeOnceRotated: a request that is repeated is not told a secret that the
// subscription got later.
func TestSubscribeOnceRotated(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		subscribe := func() (store.Subscription, error) {
			return db.Subscribe(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &idempotency.Request{Key: "k", Digest: "d"})
		}
		first := must(subscribe())(t)
		must(db.RotateSecret(ctx, first.ID, "rotated", time.Now().Add(time.Hour)))(t)
		s, err := subscribe()
		wantErr(t, err, idempotency.ErrKey)
		once := idempotency.Request{Key: "k", Digest: "d"}
		kept, err := db.RepeatedSubscription(ctx, a.ID, &once)
		wantErr(t, err, idempotency.ErrKey)
		if once.Repeated || s.Secret != "" || kept.Secret != "" {
			t.Errorf("%+v, %+v, %+v", once, s, kept)
		}
		_, err = db.AbandonSubscription(ctx, a.ID, first.ID, "k")
		noError(t, err)
		if s := must(db.Subscription(ctx, first.ID))(t); !s.RevokedAt.IsZero() {
			t.Error("one whose partner was given a secret is revoked")
		}
	})
}
