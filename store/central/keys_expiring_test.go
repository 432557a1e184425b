package central

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// TestExpiringKeys lists the keys that expire soon, by pages, without those that are
// rotated, revoked or expired.
func TestExpiringKeys(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		now := db.Now()
		key := func(in time.Duration) string {
			k := keyFor(a.ID)
			k.ExpiresAt = now.Add(in)
			return must(db.CreateKey(ctx, k))(t).ID
		}
		second, first, third := key(2*time.Hour), key(time.Hour), key(3*time.Hour)
		key(1000 * time.Hour)
		_, _, err := db.RevokeKey(ctx, key(time.Hour))
		noError(t, err)
		successor := keyFor("")
		successor.ExpiresAt = now.Add(1000 * time.Hour)
		_, _, err = db.RotateKey(ctx, key(time.Hour), successor, now.Add(time.Minute))
		noError(t, err)
		var got []string
		for page := (store.Page{Limit: 2}); ; {
			keys, next, err := db.ExpiringKeys(ctx, now.Add(24*time.Hour), page)
			noError(t, err)
			for _, k := range keys {
				got = append(got, k.ID)
			}
			if page.Cursor = next; next == "" {
				break
			}
		}
		if want := []string{first, second, third}; !reflect.DeepEqual(got, want) {
			t.Errorf("expiring are %v, want %v", got, want)
		}
		if n, err := db.CountExpiringKeys(ctx, now.Add(24*time.Hour)); err != nil || n != 3 {
			t.Errorf("counted %d, %v", n, err)
		}
		_, _, err = db.ExpiringKeys(ctx, now, store.Page{Cursor: "nonsense"})
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestExpiringKeysReadsNoOther asks for the query plans of the keys that expire soon
// while there are 5000 others: the database finds them by an index.
func TestExpiringKeysReadsNoOther(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		now := d.Now()
		noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, shared *db.Tx) error {
			for i := range 5000 {
				k := keyFor(a.ID)
				k.ExpiresAt = now.Add(1000 * time.Hour)
				if i%1000 == 0 {
					k.ExpiresAt = now.Add(time.Hour)
				}
				k, err := newKey(k, now)
				if err != nil {
					return err
				}
				if err := (&tx{Tx: shared}).insertKey(ctx, k); err != nil {
					return err
				}
			}
			return nil
		}))
		if p.kind == "postgres" {
			_ = must(d.db.Query(ctx, `ANALYZE keys`))(t).Close()
		}
		from, before := store.Micros(now), store.Micros(now.Add(24*time.Hour))
		for query, args := range map[string][]any{
			`SELECT ` + keyColumns + ` FROM keys WHERE ` + expiringKeysPage: {from, before, int64(0), "", 11},
			countExpiringKeys: {from, before},
		} {
			plan := dbtest.Explain(t, d.db, query, args...)
			if !strings.Contains(plan, "keys_expiring") || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("the plan reads other keys:\n%s", plan)
			}
		}
		if n := must(d.CountExpiringKeys(ctx, now.Add(24*time.Hour)))(t); n != 5 {
			t.Errorf("counted %d", n)
		}
	})
}
