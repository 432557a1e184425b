package central

import (
	"context"
	"testing"
	"time"

	"partneredge/store"
	engine "partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// TestRefusedClaims: what lacks an owner, a lease or a share claims nothing.
func TestRefusedClaims(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := newQueued(t, p, 1)
		q.fire(t)
		whole := deliveries.ClaimRequest{Owner: "w", Lease: time.Minute, Each: 1, Subscriptions: q.due(t)}
		for name, change := range map[string]func(*deliveries.ClaimRequest){
			"no owner":            func(r *deliveries.ClaimRequest) { r.Owner = "" },
			"an owner of bytes":   func(r *deliveries.ClaimRequest) { r.Owner = "\xff" },
			"no lease":            func(r *deliveries.ClaimRequest) { r.Lease = 0 },
			"a lease in the past": func(r *deliveries.ClaimRequest) { r.Lease = -time.Second },
			"no share":            func(r *deliveries.ClaimRequest) { r.Each = 0 },
		} {
			r := whole
			change(&r)
			if claims, _, err := q.ClaimDeliveries(t.Context(), r); len(claims) > 0 {
				t.Errorf("%s: %d claims", name, len(claims))
			} else {
				wantErr(t, err, store.ErrInvalid)
			}
		}
		claims, _, err := q.ClaimDeliveries(t.Context(), whole)
		if noError(t, err); len(claims) != 1 {
			t.Errorf("%d claims", len(claims))
		}
	})
}

// TestClaimFails: a queue that cannot be read is not taken for an empty one.
func TestClaimFails(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := newQueued(t, p, 1)
		q.fire(t)
		due := q.due(t)
		noError(t, q.db.WriteAlone(t.Context(), func(ctx context.Context, tx *engine.Tx) error {
			_, err := tx.Exec(ctx, `ALTER TABLE deliveries RENAME TO elsewhere`)
			return err
		}))
		claims, _, err := q.ClaimDeliveries(t.Context(), deliveries.ClaimRequest{Owner: "w", Lease: time.Minute, Each: 1, Subscriptions: due})
		if err == nil {
			t.Errorf("%d claims", len(claims))
		}
	})
}
