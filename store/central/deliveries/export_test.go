package deliveries

import (
	"context"
	"testing"

	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// SetHastenSlice sets how many deliveries one transaction hastens.
func (s *Store) SetHastenSlice(n int) { s.hastenSlice = n }

// FillQueue has deliveries wait for a subscription, each due a microsecond after another.
func (s *Store) FillQueue(ctx context.Context, subscription string, several int) error {
	return s.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
			WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
			SELECT 'dlv_' || n, 'evt_' || n, CAST(? AS TEXT), 'pending', 0, 0, n, n, '', n, n FROM i`, several, subscription)
		if err == nil && t.Postgres() {
			_, err = t.Exec(ctx, `ANALYZE deliveries`)
		}
		return err
	})
}

// SlicePlans returns how the database finds the slices that are cancelled, and hastened where
// what is due after some time is.
func (s *Store) SlicePlans(t *testing.T, subscription string, after int64) map[string]string {
	const slice = 100
	return map[string]string{
		"cancel": dbtest.Explain(t, s.db, nextToCancel, subscription, slice),
		"hasten": dbtest.Explain(t, s.db, nextToHasten(s.db), s.db.Set([]string{subscription}), after, after, slice),
	}
}
