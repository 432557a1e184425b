package central

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	engine "partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// Every test of this package runs on both databases, which must not be told
// apart by what they answer.

// badTexts can be held by neither database.
var badTexts = []string{"a\x00b", "\xff\xfe", "ok\xc3"}

func TestAccounts(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := must(db.CreateAccount(ctx, store.Account{Name: "名 'quoted' \"x\" \\", Agent: store.Agent{Email: "a@b.c", FullName: "Ünï 🏡"}}))(t)
		if !strings.HasPrefix(a.ID, "acc_") || !strings.HasPrefix(a.Agent.ID, "agt_") || a.Mode != store.ModeSetup || a.CreatedAt.IsZero() {
			t.Fatalf("created: %+v", a)
		}
		if got := must(db.Account(ctx, a.ID))(t); got != a {
			t.Errorf("read %+v, want %+v", got, a)
		}
		_, err := db.CreateAccount(ctx, store.Account{ID: a.ID})
		wantErr(t, err, store.ErrConflict)

		live, name := store.ModeLive, "new"
		changed, did, err := db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &live, Name: &name, Email: &name})
		noError(t, err)
		want := a
		want.Mode, want.Name, want.Agent.Email = live, name, name
		if !did || changed != want || must(db.Account(ctx, a.ID))(t) != want {
			t.Errorf("updated: %v %+v, want %+v", did, changed, want)
		}
		_, did, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &live})
		if noError(t, err); did {
			t.Error("the same again changed something")
		}
		profile, seq, err := db.Profile(ctx, a.ID)
		if noError(t, err); profile != want || seq != 1 {
			t.Errorf("profile %+v at %d, want %+v at 1", profile, seq, want)
		}
		_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: new(store.Mode("paused"))})
		wantErr(t, err, store.ErrInvalid)
		for _, text := range badTexts {
			_, err := db.CreateAccount(ctx, store.Account{Name: text})
			wantErr(t, err, store.ErrInvalid)
			_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{FullName: &text})
			wantErr(t, err, store.ErrInvalid)
		}
	})
}

// TestUnknownIDs asks every method that takes an id for one that is not there,
// and for ones that cannot be.
func TestUnknownIDs(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		newAccount(t, db, store.ModeLive)
		page := store.Page{}
		methods := map[string]func(id string) error{
			"Account":       func(id string) error { _, err := db.Account(ctx, id); return err },
			"UpdateAccount": func(id string) error { _, _, err := db.UpdateAccount(ctx, id, AccountPatch{}); return err },
			"CreateKey":     func(id string) error { _, err := db.CreateKey(ctx, keyFor(id)); return err },
			"Key":           func(id string) error { _, err := db.Key(ctx, id); return err },
			"Keys":          func(id string) error { _, _, err := db.Keys(ctx, id, page); return err },
			"RotateKey": func(id string) error {
				_, _, err := db.RotateKey(ctx, id, keyFor(""), time.Now().Add(time.Hour))
				return err
			},
			"RevokeKey":      func(id string) error { _, _, err := db.RevokeKey(ctx, id); return err },
			"AddCoachingRun": func(id string) error { _, _, err := db.AddCoachingRun(ctx, id, nil); return err },
			"AddFiring":      func(id string) error { _, _, err := db.AddFiring(ctx, store.Firing{AccountID: id}); return err },
			"PutDeal": func(id string) error {
				_, err := db.PutDeal(ctx, store.Deal{AccountID: id, ID: "d", Stage: "s"})
				return err
			},
			"AddContact": func(id string) error {
				_, _, err := db.AddContact(ctx, store.Contact{AccountID: id, ClientID: "c", Channel: "sms"})
				return err
			},
			"PutGoal": func(id string) error {
				_, err := db.PutGoal(ctx, store.Goal{AccountID: id, ID: "g", Pace: "ahead"})
				return err
			},
			"Insights": func(id string) error { _, err := db.Insights(ctx, id, time.Time{}, 0); return err },
			"Firings":  func(id string) error { _, err := db.Firings(ctx, id, time.Time{}, 0); return err },
			"Profile":  func(id string) error { _, _, err := db.Profile(ctx, id); return err },
			"Leads":    func(id string) error { _, _, err := db.Leads(ctx, id, page); return err },
			"AddSubscription": func(id string) error {
				return db.AddSubscription(ctx, subscriptionFor(id, store.EventSentinelFired))
			},
			"RevokeSubscription": func(id string) error { _, err := db.RevokeSubscription(ctx, id, "whs_x"); return err },
			"Subscription":       func(id string) error { _, err := db.Subscription(ctx, id); return err },
			"Subscriptions":      func(id string) error { _, _, err := db.Subscriptions(ctx, id, page); return err },
			"Event":              func(id string) error { _, err := db.Event(ctx, id); return err },
			"Lead":               func(id string) error { _, err := db.Lead(ctx, id); return err },
			"Delivery":           func(id string) error { _, err := db.Delivery(ctx, id); return err },
			"Deliveries/subscription": func(id string) error {
				_, _, err := db.Deliveries(ctx, deliveries.Filter{SubscriptionID: id + "x"}, page)
				return err
			},
			"Deliveries/event": func(id string) error {
				_, _, err := db.Deliveries(ctx, deliveries.Filter{EventID: id + "x"}, page)
				return err
			},
			"QuarantinedLead": func(id string) error { _, err := db.QuarantinedLead(ctx, id); return err },
			"ReleaseLead":     func(id string) error { _, err := db.ReleaseLead(ctx, id, leadFor("acc_x")); return err },
			"DiscardLead":     func(id string) error { _, err := db.DiscardLead(ctx, id); return err },
			"Attempts":        func(id string) error { _, err := db.Attempts(ctx, id); return err },
			"RetryDelivery":   func(id string) error { _, err := db.RetryDelivery(ctx, id); return err },
			"RecoverDeliveries": func(id string) error {
				_, _, err := db.RecoverDeliveries(ctx, id, store.Span{}, "", time.Hour)
				return err
			},
			"Node":       func(id string) error { _, err := db.Node(ctx, id); return err },
			"RevokeNode": func(id string) error { _, _, err := db.RevokeNode(ctx, id); return err },
		}
		ids := append([]string{"acc_nobody", "", "'; DROP TABLE keys; --", strings.Repeat("x", 5000)}, badTexts...)
		for name, method := range methods {
			for _, id := range ids {
				if err := method(id); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s(%.20q): %v, want not found", name, id, err)
				}
			}
		}
		_, seq, err := db.KeyByHash(ctx, [32]byte{1})
		if wantErr(t, err, store.ErrNotFound); seq != 0 {
			t.Errorf("seq %d before any change", seq)
		}
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		now := time.Date(2026, 3, 4, 5, 6, 7, 890123456, time.FixedZone("JST", 9*3600))
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a := newAccount(t, db, store.ModeLive)
		in := keyFor(a.ID)
		in.Label = "ключ"
		in.Scopes = []string{store.ScopeWriteLeads, store.ScopeReadAgent, store.ScopeWriteLeads}
		in.Allowlist = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
		k := must(db.CreateKey(ctx, in))(t)
		utc := now.UTC().Truncate(time.Microsecond)
		if k.RateLimit != 100 || !k.CreatedAt.Equal(utc) || !k.ExpiresAt.Equal(utc.Add(365*24*time.Hour)) || len(k.Scopes) != 2 {
			t.Fatalf("created %+v", k)
		}
		if got := must(db.Key(ctx, k.ID))(t); !reflect.DeepEqual(got, k) {
			t.Errorf("read %+v, want %+v", got, k)
		}
		if limits := must(db.KeyLimits(ctx, []string{k.ID, "key_no", "key_\x00"}))(t); len(limits) != 1 || limits[k.ID] != (KeyLimit{100, k.Hash}) {
			t.Errorf("limits %v, want 100 of the key alone", limits)
		}
		got, seq, err := db.KeyByHash(ctx, k.Hash)
		if noError(t, err); !reflect.DeepEqual(got, k) || seq != 0 {
			t.Errorf("by hash %+v at %d, want %+v at 0", got, seq, k)
		}
		again := in
		_, err = db.CreateKey(ctx, again)
		wantErr(t, err, store.ErrConflict) // the hash

		grace := utc.Add(7 * 24 * time.Hour)
		next, previous, err := db.RotateKey(ctx, k.ID, keyHash(), grace)
		noError(t, err)
		if next.AccountID != a.ID || next.Label != k.Label || !reflect.DeepEqual(next.Scopes, k.Scopes) ||
			!reflect.DeepEqual(next.Allowlist, k.Allowlist) || previous.SuccessorID != next.ID || !previous.GraceUntil.Equal(grace) {
			t.Errorf("rotated: %+v after %+v", next, previous)
		}
		if got := must(db.Key(ctx, k.ID))(t); !reflect.DeepEqual(got, previous) {
			t.Errorf("read %+v, want %+v", got, previous)
		}
		if _, seq, _ := db.KeyByHash(ctx, k.Hash); seq != 1 {
			t.Errorf("seq %d after rotation, want 1", seq)
		}
		_, _, err = db.RotateKey(ctx, k.ID, keyHash(), grace)
		wantErr(t, err, store.ErrConflict)

		revoked, changed, err := db.RevokeKey(ctx, next.ID)
		if limits := must(db.KeyLimits(ctx, []string{next.ID}))(t); len(limits) != 0 {
			t.Errorf("a revoked key's limit: %v", limits)
		}
		if noError(t, err); !changed || !revoked.RevokedAt.Equal(utc) {
			t.Errorf("revoked %v %+v", changed, revoked)
		}
		again2, changed, err := db.RevokeKey(ctx, next.ID)
		if noError(t, err); changed || !reflect.DeepEqual(again2, revoked) {
			t.Errorf("revoked twice: %v %+v", changed, again2)
		}
		_, _, err = db.RotateKey(ctx, next.ID, keyHash(), grace)
		wantErr(t, err, store.ErrConflict)
		log := must(db.ChangesSince(ctx, Position{}, 0))(t)
		want := []store.Change{{Seq: 1, Kind: store.ChangeKey, Ref: k.ID}, {Seq: 2, Kind: store.ChangeKey, Ref: next.ID, Gone: true}}
		if log.Latest != 2 || log.Reset || !reflect.DeepEqual(log.Changes, want) {
			t.Errorf("changes %+v, want %v", log, want)
		}

		short := keyFor(a.ID)
		short.ExpiresAt = utc.Add(time.Hour)
		short = must(db.CreateKey(ctx, short))(t)
		if _, previous, err = db.RotateKey(ctx, short.ID, keyHash(), grace); err != nil || !previous.GraceUntil.Equal(short.ExpiresAt) {
			t.Errorf("rotated an hour before its expiry: grace until %v, %v", previous.GraceUntil, err)
		}
		if got := must(db.Key(ctx, short.ID))(t); !reflect.DeepEqual(got, previous) {
			t.Errorf("read %+v, want %+v", got, previous)
		}

		old := must(db.CreateKey(ctx, keyFor(a.ID)))(t)
		now = now.Add(366 * 24 * time.Hour)
		_, _, err = db.RotateKey(ctx, old.ID, keyHash(), now.Add(time.Hour))
		wantErr(t, err, store.ErrConflict) // expired
		for name, spoil := range map[string]func(*store.Key){
			"scope":       func(k *store.Key) { k.Scopes = []string{"write:all"} },
			"environment": func(k *store.Key) { k.Environment = "prod" },
			"hash":        func(k *store.Key) { k.Hash = [32]byte{} },
			"rate":        func(k *store.Key) { k.RateLimit = -1 },
			"allowlist":   func(k *store.Key) { k.Allowlist = []netip.Prefix{{}} },
			"label":       func(k *store.Key) { k.Label = badTexts[0] },
			"time":        func(k *store.Key) { k.ExpiresAt = time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			k := keyFor(a.ID)
			spoil(&k)
			if _, err := db.CreateKey(ctx, k); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("bad %s: %v", name, err)
			}
		}
	})
}

// keyHash is a successor that leaves everything to the key before it.
func keyHash() store.Key { return store.Key{Hash: keyFor("").Hash} }

// TestPaging turns pages of every list while rows come in.
func TestPaging(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		lists := map[string]struct {
			add  func() string
			list func(store.Page) ([]string, string, error)
		}{
			"accounts": {
				func() string { return newAccount(t, db, store.ModeSetup).ID },
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.Accounts(ctx, p)
					return idsOf(items, func(a store.Account) string { return a.ID }), next, err
				},
			},
			"keys": {
				func() string { return must(db.CreateKey(ctx, keyFor(a.ID)))(t).ID },
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.Keys(ctx, a.ID, p)
					return idsOf(items, func(k store.Key) string { return k.ID }), next, err
				},
			},
			"leads": {
				func() string {
					l := leadFor(a.ID)
					must(db.AddLeads(ctx, "node_x", offered(l)))(t)
					return l.ID
				},
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.Leads(ctx, a.ID, p)
					return idsOf(items, func(l store.Lead) string { return l.ID }), next, err
				},
			},
			"subscriptions": {
				func() string {
					s := subscriptionFor(a.ID, store.EventDealChanged)
					noError(t, db.AddSubscription(ctx, s))
					return s.ID
				},
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.Subscriptions(ctx, a.ID, p)
					return idsOf(items, func(s store.Subscription) string { return s.ID }), next, err
				},
			},
			"quarantine": {
				func() string {
					l := leadFor("acc_nobody")
					must(db.AddLeads(ctx, "node_x", offered(l)))(t)
					return l.ID
				},
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.QuarantinedLeads(ctx, store.Span{}, p)
					return idsOf(items, func(q store.QuarantinedLead) string { return q.LeadID }), next, err
				},
			},
			"nodes": {
				func() string {
					return must(db.AddNode(ctx, store.Node{PublicKey: fmt.Sprint("U", unique.Add(1))}))(t).ID
				},
				func(p store.Page) ([]string, string, error) {
					items, next, err := db.Nodes(ctx, p)
					return idsOf(items, func(n store.Node) string { return n.ID }), next, err
				},
			},
		}
		for name, l := range lists {
			var added []string
			for range 25 {
				added = append(added, l.add())
			}
			first, _, err := l.list(store.Page{Limit: 200})
			noError(t, err)
			var seen []string
			cursor := ""
			for {
				items, next, err := l.list(store.Page{Limit: 4, Cursor: cursor})
				noError(t, err)
				seen = append(seen, items...)
				if next == "" {
					break
				}
				cursor = next
				l.add() // newer than all that is still to come
			}
			if !reflect.DeepEqual(seen, first) {
				t.Errorf("%s: pages gave %d rows %v, want %d %v", name, len(seen), seen, len(first), first)
			}
			if first[0] != added[24] {
				t.Errorf("%s: first is %s, want the newest %s", name, first[0], added[24])
			}
			for _, bad := range []string{"%", "-1", "1", "nonsense", "zzzzzzzzzzzzzzzzzzzz", "\x00", engine.Cursor("another", "1")} {
				if _, _, err := l.list(store.Page{Cursor: bad}); !errors.Is(err, store.ErrInvalid) {
					t.Errorf("%s: cursor %q: %v", name, bad, err)
				}
			}
		}
	})
}

func idsOf[T any](items []T, id func(T) string) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = id(item)
	}
	return ids
}

func wantErr(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
	}
}
