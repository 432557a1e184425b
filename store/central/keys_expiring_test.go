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
		_, _, err = db.ExpiringKeys(ctx, now, store.Page{Cursor: "nonsense"})
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestCountExpiringKeys counts the keys that expire between two times and have been used in
// the last 90 days, so that a key which nobody uses keeps no alert firing.
func TestCountExpiringKeys(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		d := open(t, p)
		a := newAccount(t, d, store.ModeLive)
		now := d.Now()
		key := func(in, ago time.Duration) string {
			k := keyFor(a.ID)
			k.ExpiresAt = now.Add(in)
			k = must(d.CreateKey(ctx, k))(t)
			if ago > 0 {
				usedBefore(t, d, k.ID, now.Add(-ago))
			}
			return k.ID
		}
		const day = 24 * time.Hour
		key(time.Hour, 0) // never used
		key(time.Hour, 91*day)
		key(time.Hour, 89*day)
		key(-time.Hour, time.Hour*2)
		key(1000*time.Hour, time.Hour)
		_, _, err := d.RevokeKey(ctx, key(time.Hour, time.Hour))
		noError(t, err)
		successor := keyFor("")
		successor.ExpiresAt = now.Add(1000 * time.Hour)
		_, _, err = d.RotateKey(ctx, key(time.Hour, time.Hour), successor, now.Add(time.Minute))
		noError(t, err)
		for _, c := range []struct {
			when         string
			from, before time.Time
			want         int
		}{
			{"in a day", now, now.Add(day), 1},
			{"since a day", now.Add(-day), now, 1},
			{"within two days", now.Add(-day), now.Add(day), 2},
			{"later", now.Add(day), now.Add(2 * day), 0},
		} {
			if n, err := d.CountExpiringKeys(ctx, c.from, c.before); err != nil || n != c.want {
				t.Errorf("%s: counted %d, %v; want %d", c.when, n, err, c.want)
			}
		}
	})
}

// usedBefore notes when a key was last used.
func usedBefore(t *testing.T, d *DB, key string, at time.Time) {
	t.Helper()
	noError(t, d.db.WriteAlone(context.Background(), func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, `UPDATE keys SET last_used_at = ? WHERE id = ?`, store.Micros(at), key)
		return err
	}))
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
			_, err := shared.Exec(ctx, `UPDATE keys SET last_used_at = ?`, store.Micros(now))
			return err
		}))
		if p.kind == "postgres" {
			_ = must(d.db.Query(ctx, `ANALYZE keys`))(t).Close()
		}
		from, before := store.Micros(now), store.Micros(now.Add(24*time.Hour))
		for query, args := range map[string][]any{
			`SELECT ` + keyColumns + ` FROM keys WHERE ` + expiringKeysPage: {from, before, int64(0), "", 11},
			countExpiringKeys: {from, before, int64(0)},
		} {
			plan := dbtest.Explain(t, d.db, query, args...)
			if !strings.Contains(plan, "keys_expiring") || strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("the plan reads other keys:\n%s", plan)
			}
		}
		if n := must(d.CountExpiringKeys(ctx, now, now.Add(24*time.Hour)))(t); n != 5 {
			t.Errorf("counted %d", n)
		}
	})
}
