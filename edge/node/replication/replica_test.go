package replication

import (
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/local"
)

// TestEachByteOfAHashCounts: a key whose hash differs from the one asked for in one byte,
// wherever that is, is another key.
func TestEachByteOfAHashCounts(t *testing.T) {
	hash := local.KeyName([]byte("svc_live_held"))
	key := store.Key{Hash: [32]byte([]byte(hash))}
	if !hasHash(&key, hash) || !hasHash(&store.Key{}, hash) {
		t.Error("the key, with its hash or without, is not taken for itself")
	}
	if hasHash(nil, hash) {
		t.Error("no key is taken for one")
	}
	for i := range key.Hash {
		other := key
		if other.Hash[i] ^= 1; hasHash(&other, hash) {
			t.Errorf("byte %d differs, and the key is taken for the other", i)
		}
	}
}

// TestViewsAreRenewedByValidKeys: a view that changed is asked for in the name of a key that
// is held and has not ended, by whatever it may end.
func TestViewsAreRenewedByValidKeys(t *testing.T) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	later, moment := now.Add(time.Hour), time.Microsecond
	r := newReplica(t.Context(), Config{Store: held, Now: func() time.Time { return now }})
	for name, c := range map[string]struct {
		key   store.Key
		valid bool
	}{
		"valid":            {store.Key{ExpiresAt: later}, true},
		"about to expire":  {store.Key{ExpiresAt: now.Add(moment)}, true},
		"expired":          {store.Key{ExpiresAt: now}, false},
		"revoked":          {store.Key{ExpiresAt: later, RevokedAt: now}, false},
		"in its grace":     {store.Key{ExpiresAt: later, GraceUntil: now.Add(moment)}, true},
		"past its grace":   {store.Key{ExpiresAt: later, GraceUntil: now}, false},
		"long past grace":  {store.Key{ExpiresAt: later, GraceUntil: now.Add(-time.Hour)}, false},
		"expired in grace": {store.Key{ExpiresAt: now, GraceUntil: later}, false},
	} {
		if _, err := r.putKey(name, &c.key, 1, r.asking(held.Keys)); err != nil {
			t.Fatal(err)
		}
		if r.valid(name) != c.valid {
			t.Errorf("%s: valid %t", name, !c.valid)
		}
	}
	if r.valid("not held") {
		t.Error("a key that is not held is valid")
	}
}

// TestOrphansAreDropped: after a reset nobody tells that an account was deleted. Its keys
// are found to be gone, and with them its views.
func TestOrphansAreDropped(t *testing.T) {
	held, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	r := newReplica(t.Context(), Config{Store: held, Now: func() time.Time { return now }})
	later := now.Add(time.Hour)
	keys := map[string]*store.Key{
		"kept":    {ID: "key_1", AccountID: "acc_kept", ExpiresAt: later},
		"revoked": {ID: "key_2", AccountID: "acc_revoked", ExpiresAt: later, RevokedAt: now},
		"gone":    {ID: "key_3", AccountID: "acc_gone", ExpiresAt: later},
		"stale":   {ID: "key_4", AccountID: "acc_stale", ExpiresAt: later},
	}
	view := func(of string) {
		t.Helper()
		if _, err := held.Views.Put("profile/acc_"+of, local.Record{Ref: "profile/acc_" + of, Frame: "Dana", Seq: held.Cursor().Seq}, held.Views.Epoch()); err != nil {
			t.Fatal(err)
		}
	}
	for name, key := range keys {
		if _, err := r.putKey(name, key, 1, r.asking(held.Keys)); err != nil {
			t.Fatal(err)
		}
		view(name)
	}
	if err := held.Reset(9, "his_2", false); err != nil {
		t.Fatal(err)
	}
	keys["gone"] = nil
	delete(keys, "stale") // beyond the keys that are asked for
	for name, key := range keys {
		if err := r.refilled(name, key, 9, r.asking(held.Keys)); err != nil {
			t.Fatal(err)
		}
	}
	view("never held") // it is of now
	if err := r.dropOrphans(); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]bool{"kept": true, "revoked": false, "gone": false, "stale": false, "never held": true} {
		if _, _, is := held.Views.Find("profile/acc_" + of); is != want {
			t.Errorf("the view of the account whose key is %s is held: %t, want %t", of, is, want)
		}
	}
}
