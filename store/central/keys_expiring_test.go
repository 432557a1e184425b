package central

import (
	"context"
	"reflect"
	"testing"
	"time"

	"partneredge/store"
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
