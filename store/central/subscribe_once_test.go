package central

import (
	"context"
	"errors"
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
		if _, err := db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &once); err != nil || once.Repeated {
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
		if kept, err := db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &once); err != nil || !once.Repeated || kept.Secret != first.Secret {
			t.Errorf("%+v, %+v, %v", once, kept, err)
		}
		_, _, err = subscribe(a.ID, "k", "other")
		wantErr(t, err, idempotency.ErrKey)
		_, err = db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &idempotency.Request{Key: "k", Digest: "other"})
		wantErr(t, err, idempotency.ErrKey)
		if _, repeated, err = subscribe(b.ID, "k", "d"); err != nil || repeated {
			t.Errorf("another account's: %v, %v", repeated, err)
		}
		if _, err = db.RevokeSubscription(ctx, a.ID, first.ID); err != nil {
			t.Fatal(err)
		}
		again, repeated, err = subscribe(a.ID, "k", "d")
		wantErr(t, err, idempotency.ErrKey)
		kept, err := db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &once)
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

// TestAbandonRepetition: a subscription is revoked once no answer that names it has
// arrived: neither the first one nor that of a repetition, in whatever order they are
// given up.
func TestAbandonRepetition(t *testing.T) {
	for name, c := range map[string]struct {
		repeated int   // times
		lost     []int // answers, in the order in which they are given up; 0 is the first
		old      bool  // an older origin kept that it was repeated
		revoked  bool
	}{
		"all lost":                           {repeated: 2, lost: []int{0, 1, 2}, revoked: true},
		"all lost, the first given up last":  {repeated: 2, lost: []int{2, 1, 0}, revoked: true},
		"all lost, one given up twice":       {repeated: 1, lost: []int{1, 1, 0, 0}, revoked: true},
		"the first arrived":                  {repeated: 2, lost: []int{1, 2}},
		"a repetition arrived":               {repeated: 2, lost: []int{0, 2}},
		"an older origin kept no ids":        {repeated: 1, lost: []int{0, 1}, old: true},
		"more repetitions than are kept":     {repeated: 17, lost: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
		"as many repetitions as may be kept": {repeated: 16, lost: []int{16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, revoked: true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p place) {
				ctx := t.Context()
				db := open(t, p)
				a := newAccount(t, db, store.ModeLive)
				var requests []string
				subscribe := func() store.Subscription {
					s := subscriptionFor(a.ID, store.EventSentinelFired)
					requests = append(requests, s.ID)
					return must(db.Subscribe(ctx, s, &idempotency.Request{Key: "k", Digest: "d"}))(t)
				}
				first := subscribe()
				if c.old {
					noError(t, db.change(ctx, a.ID, func(ctx context.Context, shared *tx) error {
						_, err := shared.Exec(ctx, `UPDATE idempotency SET answer = ? WHERE account_id = ?`,
							`{"id":"`+first.ID+`","repeated":true}`, a.ID)
						return err
					}))
				}
				for range c.repeated {
					if s := subscribe(); s.ID != first.ID {
						t.Fatalf("a repetition made %s", s.ID)
					}
				}
				for i, n := range c.lost {
					if s := must(db.Subscription(ctx, first.ID))(t); !s.RevokedAt.IsZero() && i < c.repeated {
						t.Fatalf("it is revoked after %v of the answers were given up", c.lost[:i])
					}
					if _, err := db.AbandonSubscription(ctx, a.ID, requests[n], "k"); err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Error(err)
					}
				}
				if s := must(db.Subscription(ctx, first.ID))(t); s.RevokedAt.IsZero() == c.revoked {
					t.Errorf("revoked at %v", s.RevokedAt)
				}
				if s := subscribe(); (s.ID != first.ID) != c.revoked {
					t.Errorf("the key leads to %s, after %s", s.ID, first.ID)
				}
			})
		})
	}
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
		kept, err := db.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &once)
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
