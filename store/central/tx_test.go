package central

import (
	"context"
	"testing"

	"partneredge/store"
)

// TestModeOfFailedJob has a job of a shared transaction change an account's mode
// twice and fail: the next job emits by the mode that the account has.
func TestModeOfFailedJob(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		var event *store.Event
		noError(t, db.change(context.Background(), a.ID, func(ctx context.Context, shared *tx) (err error) {
			undo := shared.Mark()
			shared.setMode(a.ID, store.ModeSetup)
			shared.setMode(a.ID, store.ModeSetup)
			undo()
			event, err = shared.emit(ctx, a.ID, store.EventGoalChanged, nil)
			return err
		}))
		if event.Silenced {
			t.Error("the event of a live account is silenced by the mode of a job that was undone")
		}
	})
}
