package central

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
)

// markers "encrypt" with a mark that names their key and the record.
type markers struct{ keys []string }

func (m markers) Seal(id, secret string) (string, error) {
	return m.keys[0] + "|" + id + "|" + reversed(secret), nil
}

func (m markers) Open(id, sealed string) (string, error) {
	for _, key := range m.keys {
		if secret, ok := strings.CutPrefix(sealed, key+"|"+id+"|"); ok {
			return reversed(secret), nil
		}
	}
	if len(strings.Split(sealed, "|")) != 3 {
		return "", errors.New("it is damaged")
	}
	return "", deliveries.ErrNoKey
}

func (m markers) Fresh(sealed string) bool { return strings.HasPrefix(sealed, m.keys[0]+"|") }

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// Secrets are sealed at rest, sign from each way in which a sender learns of
// them, overlap when they are rotated, and are sealed anew for a new key.
func TestSecrets(t *testing.T) {
	for _, at := range []place{{"sqlite", t.TempDir() + "/central.db"}, {"postgres", ""}} {
		t.Run(at.kind, func(t *testing.T) {
			if at.kind == "postgres" {
				at.url = centraltest.Postgres(t)
			}
			ctx := context.Background()
			now := time.Now()
			reopen := func(keys ...string) *DB {
				db, err := Open(ctx, Config{URL: at.url, Secrets: markers{keys}, Now: func() time.Time { return now }})
				noError(t, err)
				return db
			}
			db := reopen("one")
			a := newAccount(t, db, store.ModeLive)
			s := subscriptionFor(a.ID, store.EventSentinelFired)
			s.Secret = "first"
			noError(t, db.AddSubscription(ctx, s))
			noError(t, db.AddSubscription(ctx, s)) // the same again, however it is sealed

			inUse := func(db *DB) []string {
				t.Helper()
				endpoints, err := db.Endpoints(ctx, []string{s.ID})
				noError(t, err)
				var claimed []deliveries.Claim
				noError(t, db.SetClaimer(&deliveries.Claimer{Owner: "t", Lease: time.Hour, Accept: func(string) bool { return true }, Claimed: func(c []deliveries.Claim) { claimed = append(claimed, c...) }}))
				_, _, err = db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n", Data: []byte("{}"), Action: "a"})
				noError(t, err)
				noError(t, db.SetClaimer(nil))
				_, _, err = db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: "n", Data: []byte("{}"), Action: "a"})
				noError(t, err)
				claims, _, err := db.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: "c", Lease: time.Hour, Subscriptions: []string{s.ID}, Each: 10})
				noError(t, err)
				if len(claimed) != 1 || len(claims) == 0 {
					t.Fatalf("%d claimed as written, %d later", len(claimed), len(claims))
				}
				if !slices.Equal(claimed[0].Endpoint.Secrets, endpoints[s.ID].Secrets) || !slices.Equal(claims[0].Endpoint.Secrets, endpoints[s.ID].Secrets) {
					t.Errorf("claimed as written %v, claimed later %v, endpoint %v", claimed[0].Endpoint.Secrets, claims[0].Endpoint.Secrets, endpoints[s.ID].Secrets)
				}
				return endpoints[s.ID].Secrets
			}
			want := func(db *DB, secrets ...string) {
				t.Helper()
				if got := inUse(db); !slices.Equal(got, secrets) {
					t.Errorf("signs with %v, want %v", got, secrets)
				}
			}
			kept := func(db *DB) (text string) {
				t.Helper()
				noError(t, db.db.QueryRow(ctx, `SELECT secret || ' ' || old_secret FROM subscriptions WHERE id = ?`, s.ID).Scan(&text))
				return text
			}
			want(db, "first")
			if text := kept(db); strings.Contains(text, "first") {
				t.Errorf("kept as %q", text)
			}

			version := db.EndpointsVersion()
			_, err := db.RotateSecret(ctx, s.ID, "second", now.Add(time.Hour))
			noError(t, err)
			if db.EndpointsVersion() == version {
				t.Error("the rotation is not told")
			}
			_, err = db.RotateSecret(ctx, s.ID, "second", now.Add(time.Minute)) // again: the overlap stays
			noError(t, err)
			_, err = db.RotateSecret(ctx, s.ID, "third", now.Add(time.Hour)) // "first" is all that the partner may have
			wantErr(t, err, store.ErrConflict)
			now = now.Add(59 * time.Minute)
			want(db, "second", "first")

			noError(t, db.Close())
			db = reopen("two", "one")
			want(db, "second", "first")
			n, err := db.ResealSecrets(ctx)
			noError(t, err)
			if n != 1 {
				t.Errorf("%d sealed anew", n)
			}
			if n, err = db.ResealSecrets(ctx); n != 0 || err != nil {
				t.Errorf("again: %d %v", n, err)
			}
			noError(t, db.Close())
			db = reopen("two")
			want(db, "second", "first")
			now = now.Add(time.Minute)
			want(db, "second")
			_, err = db.RotateSecret(ctx, s.ID, "third", now.Add(time.Hour)) // the overlap has ended
			noError(t, err)
			want(db, "third", "second")
			rotated, err := db.RotateSecret(ctx, s.ID, "fourth", db.Now()) // ends all others at once
			if noError(t, err); rotated.ID != s.ID || rotated.TargetURL != s.TargetURL {
				t.Errorf("rotated %+v", rotated)
			}
			want(db, "fourth")

			// A key that is gone stops nothing but what it sealed.
			noError(t, db.Close())
			db = reopen("three")
			defer func() { noError(t, db.Close()) }()
			want(db)
			if _, err = db.ResealSecrets(ctx); !errors.Is(err, deliveries.ErrNoKey) {
				t.Errorf("sealed anew without the key: %v", err)
			}
			_, err = db.RotateSecret(ctx, "whs_none", "x", now)
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("unknown subscription: %v", err)
			}
			if _, err := db.RotateSecret(ctx, s.ID, "", now); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("empty secret: %v", err)
			}
		})
	}
}

// TestDamagedSecretHoldsUpNothing: a subscription whose secrets cannot be opened is read,
// listed, given a new secret, revoked, exported and erased as any other, and the secrets of
// others are sealed anew.
func TestDamagedSecretHoldsUpNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := openWith(t, p, Config{Secrets: markers{[]string{"one"}}})
		a := newAccount(t, d, store.ModeLive)
		var ids [4]string
		for i := range ids {
			s := subscriptionFor(a.ID, store.EventSentinelFired)
			ids[i] = s.ID
			must(d.Subscribe(ctx, s, &idempotency.Request{Key: s.ID, Digest: "d"}))(t)
		}
		must(d.RotateSecret(ctx, ids[2], "second", d.Now().Add(time.Hour)))(t)
		for column, of := range map[string][]string{"secret": ids[:2], "old_secret": ids[2:3]} {
			noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
				_, err := t.Exec(ctx, `UPDATE subscriptions SET `+column+` = 'damaged' WHERE `+t.In("id"), t.Set(of))
				return err
			}))
		}

		d = openWith(t, p, Config{Secrets: markers{[]string{"two", "one"}}})
		if n, err := d.ResealSecrets(ctx); n != 2 || err != nil {
			t.Errorf("%d sealed anew, want 2: %v", n, err)
		}
		noError(t, d.write(ctx, "seal anew", nil, func(ctx context.Context, t *tx) error {
			_, err := d.reseal(ctx, t, "whs_none") // listed, and removed since
			return err
		}))
		d = openWith(t, p, Config{Secrets: markers{[]string{"two"}}})
		if n, err := d.ResealSecrets(ctx); n != 0 || err != nil {
			t.Errorf("again %d sealed anew: %v", n, err)
		}
		if s := must(d.Subscription(ctx, ids[0]))(t); s.TargetURL == "" {
			t.Errorf("read %+v", s)
		}
		if all, _, err := d.Subscriptions(ctx, a.ID, store.Page{}); err != nil || len(all) != len(ids) {
			t.Errorf("listed %d: %v", len(all), err)
		}
		must(d.RotateSecret(ctx, ids[0], "fresh", d.Now().Add(time.Hour)))(t)
		endpoints := must(d.Endpoints(ctx, ids[:]))(t)
		for i, want := range [][]string{{"fresh"}, nil, {"second"}, {"5ec7e7"}} {
			if got := endpoints[ids[i]].Secrets; !slices.Equal(got, want) {
				t.Errorf("subscription %d signs with %v, want %v", i, got, want)
			}
		}
		if _, err := d.RevokeSubscription(ctx, a.ID, ids[1]); err != nil {
			t.Errorf("revoking: %v", err)
		}
		_, err := d.RepeatedSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired), &idempotency.Request{Key: ids[1], Digest: "d"})
		wantErr(t, err, idempotency.ErrKey) // as of any that was revoked
		noError(t, d.ExportAccount(ctx, a.ID, func(any) error { return nil }))
		if gone := must(d.EraseAccount(ctx, a.ID))(t); gone["subscriptions"] != int64(len(ids)) {
			t.Errorf("erased %v", gone)
		}
	})
}
