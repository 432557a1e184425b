package central

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"partneredge/store"
	engine "partneredge/store/central/db"
	"partneredge/store/central/usage"
)

// damage sets columns of a key to what no write of this package leaves there.
func damage(t *testing.T, d *DB, id, columns string) {
	t.Helper()
	noError(t, d.db.WriteAlone(t.Context(), func(ctx context.Context, t *engine.Tx) error {
		_, err := t.Exec(ctx, `UPDATE keys SET `+columns+` WHERE id = ?`, id)
		return err
	}))
}

// TestDamagedKeyFailsAlone damages the row of one of several keys. The others are read, and
// nobody is told that there is no such key.
func TestDamagedKeyFailsAlone(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		for what, columns := range map[string]string{
			"scopes that are no JSON":        `scopes = '["read:agent'`,
			"scopes that are numbers":        `scopes = '[1]'`,
			"a network that is none":         `allowlist = '["10.0.0.0/99"]'`,
			"a time that no message can say": `expires_at = 253402300800000000`,
			"a time before 1970":             `revoked_at = -1`,
		} {
			t.Run(what, func(t *testing.T) {
				before := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
				damaged := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
				after := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
				unknown := keyFor(a.ID)
				damage(t, d, damaged.ID, columns)
				next, _, err := d.RotateKey(ctx, before.ID, keyHash(), d.db.Now()) // a change
				noError(t, err)
				read := must(d.KeysByHash(ctx, [][]byte{before.Hash[:], damaged.Hash[:], unknown.Hash[:], after.Hash[:], next.Hash[:]}))(t)
				want := map[[32]byte]store.Key{before.Hash: must(d.Key(ctx, before.ID))(t), after.Hash: after, next.Hash: next}
				if !reflect.DeepEqual(read.Found, want) {
					t.Errorf("found %+v, want %+v", read.Found, want)
				}
				if got := read.Unread[damaged.Hash]; len(read.Unread) != 1 || got.ID != damaged.ID || got.Why == nil {
					t.Errorf("unread are %v", read.Unread)
				}
				for hash, want := range map[[32]byte]error{damaged.Hash: nil, unknown.Hash: store.ErrNotFound, after.Hash: nil} {
					_, seq, err := d.KeyByHash(ctx, hash)
					got, isDamaged := errors.AsType[UnreadKeyError](err)
					switch {
					case isDamaged != (hash == damaged.Hash), isDamaged && got.ID != damaged.ID:
						t.Errorf("read by hash: %v", err)
					case !isDamaged && !errors.Is(err, want), isDamaged && (errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid)):
						t.Errorf("read by hash: %v, want %v", err, want)
					case seq != read.Seq || seq == 0:
						t.Errorf("read by hash at change %d, with others at %d", seq, read.Seq)
					}
				}
			})
		}
	})
}

// TestDamagedKeyHoldsUpNoLeads hands over leads of several keys, one of which has a damaged
// row: its lead waits in the quarantine for a person, and the others are kept.
func TestDamagedKeyHoldsUpNoLeads(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		var leads []OfferedLead
		var keys []store.Key
		for range 3 {
			k := keyFor(a.ID)
			k.Scopes = []string{store.ScopeWriteLeads}
			k = must(d.CreateKey(ctx, k))(t)
			l := leadFor(a.ID)
			l.KeyID, l.CreatedAt = k.ID, d.db.Now()
			keys = append(keys, k)
			leads = append(leads, OfferedLead{AcceptedLead: store.AcceptedLead{Lead: l, KeyHash: k.Hash[:]}, Body: []byte("{}")})
		}
		damage(t, d, keys[1].ID, `allowlist = ''`)
		done := must(d.AddLeads(ctx, "node_x", leads))(t)
		if want := []string{leads[0].ID, leads[2].ID}; !reflect.DeepEqual(done.Committed, want) || len(done.Rejected) != 0 {
			t.Errorf("committed %v, want %v; rejected %v", done.Committed, want, done.Rejected)
		}
		if len(done.Quarantined) != 1 || done.Quarantined[leads[1].ID] != errDamagedKey.Error() || len(done.Refusals) != 0 {
			t.Errorf("quarantined %v, refusals %v", done.Quarantined, done.Refusals)
		}
		if waits := waiting(t, d); len(waits) != 1 || waits[0].KeyID != keys[1].ID {
			t.Errorf("in the quarantine is %+v", waits)
		}
	})
}

// TestDamagedKeyLeavesOthersTheirLimits: the limit of a key whose hash is damaged is left
// out, and the others are read.
func TestDamagedKeyLeavesOthersTheirLimits(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		var keys []store.Key
		for range 4 {
			keys = append(keys, must(d.CreateKey(ctx, keyFor(a.ID)))(t))
		}
		damage(t, d, keys[1].ID, tooShort(p))
		damage(t, d, keys[2].ID, tooLong(p))
		limits := must(d.KeyLimits(ctx, []string{keys[0].ID, keys[1].ID, keys[2].ID, keys[3].ID}))(t)
		want := map[string]KeyLimit{keys[0].ID: {keyRate, keys[0].Hash}, keys[3].ID: {keyRate, keys[3].Hash}}
		if !reflect.DeepEqual(limits, want) {
			t.Errorf("limits %v, want %v", limits, want)
		}
	})
}

// tooShort and tooLong change a hash to one of another length.
func tooShort(p place) string {
	return map[string]string{"sqlite": `hash = x'0102'`, "postgres": `hash = '\x0102'`}[p.kind]
}

func tooLong(p place) string {
	return map[string]string{"sqlite": `hash = CAST(hash || x'00' AS BLOB)`, "postgres": `hash = hash || '\x00'::bytea`}[p.kind]
}

// TestDamagedHashHoldsUpNoOther: of keys and tokens of which some have a damaged hash, what
// the others are used for is recorded, all are listed, and all can be revoked and erased.
func TestDamagedHashHoldsUpNoOther(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		var ids, tokens []string
		counts := make(map[usage.Counter]usage.Count)
		for range 4 {
			k := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
			ids = append(ids, k.ID)
			counts[usage.Counter{KeyID: k.ID, Day: store.DayOf(d.Now()), Node: "node_1", Boot: "b"}] = usage.Count{Requests: 1, Hash: k.Hash[:]}
			tokens = append(tokens, must(d.CreateToken(ctx, store.Token{Name: "n", Role: store.RoleViewer, Hash: k.Hash}))(t).ID)
		}
		damage(t, d, ids[1], tooShort(p))
		damage(t, d, ids[2], tooLong(p))
		noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, tx *engine.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE tokens SET `+tooShort(p)+` WHERE id = ?`, tokens[1])
			return err
		}))

		if refused := must(d.RecordUsage(ctx, counts))(t); len(refused) != 0 {
			t.Errorf("refused are %v", refused)
		}
		for id, use := range must(d.KeyUses(ctx, ids, 0))(t) {
			if want := id == ids[0] || id == ids[3]; (use.Requests == 1) != want {
				t.Errorf("recorded %t, want %t", use.Requests == 1, want)
			}
		}
		of, _, err := d.Keys(ctx, a.ID, store.Page{})
		noError(t, err)
		expiring, _, err := d.ExpiringKeys(ctx, d.Now().Add(2*keyLifetime), store.Page{})
		noError(t, err)
		all, _, err := d.Tokens(ctx, store.Page{})
		noError(t, err)
		if len(of) != 4 || len(expiring) != 4 || len(all) != 4 {
			t.Errorf("listed %d keys, %d that expire and %d tokens, want 4 of each", len(of), len(expiring), len(all))
		}
		if _, _, err = d.RevokeKey(ctx, ids[1]); err != nil {
			t.Errorf("revoking a key: %v", err)
		}
		if _, _, err := d.RevokeToken(ctx, tokens[1]); err != nil {
			t.Errorf("revoking a token: %v", err)
		}
		if gone := must(d.EraseAccount(ctx, a.ID))(t); gone["keys"] != 4 {
			t.Errorf("erased %d keys, want 4", gone["keys"])
		}
	})
}

// closedRow is a row that is closed after it was scanned once, as the end of a request does.
type closedRow struct{ scanned bool }

// Scan implements db.Row.
func (r *closedRow) Scan(dest ...any) error {
	if r.scanned {
		return context.Canceled
	}
	id := "key_1"
	r.scanned, *dest[1].(**string), *dest[3].(*bool) = true, &id, true
	return nil
}

// TestEndOfARequestIsNoDamage: a row that is closed while it is read says nothing of its key.
func TestEndOfARequestIsNoDamage(t *testing.T) {
	for _, ended := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if ended {
			cancel()
		}
		h, err := scanHashed(ctx, new(closedRow))
		if _, isDamaged := errors.AsType[UnreadKeyError](err); !h.found || err == nil || isDamaged == ended {
			t.Errorf("with the request ended %t: %+v, %v", ended, h, err)
		}
		cancel()
	}
}
