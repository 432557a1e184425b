package central

import (
	"context"
	"errors"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

// TestWritableEnds has another process hold what Writable writes to: Writable ends with
// its context, and not with the attempt.
func TestWritableEnds(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		d, other := open(t, p), open(t, p)
		failed := func(context.Context, *db.Tx) error { return store.ErrUnavailable }
		wantErr(t, d.db.Write(t.Context(), "", failed), store.ErrUnavailable)
		held, unlock, unlocked := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			unlocked <- other.db.Write(context.Background(), "", func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE schema_migrations SET number = number WHERE number = 1`)
				close(held)
				<-unlock
				return err
			})
		}()
		<-held
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
		if err := d.Writable(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("while nothing can be written: %v", err)
		}
		close(unlock)
		noError(t, <-unlocked)
		noError(t, d.Writable(t.Context()))
	})
}
