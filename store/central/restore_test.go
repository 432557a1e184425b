package central

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"partneredge/store"
	"partneredge/store/central/audit"
	engine "partneredge/store/central/db"
)

// TestRestored: whatever number a node has followed to, it is told to begin
// afresh, and numbers go on above all of them.
func TestRestored(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := context.Background()
		a := newAccount(t, db, store.ModeLive)
		change := func(to store.Mode) {
			t.Helper()
			_, changed, err := db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &to})
			noError(t, err)
			if !changed {
				t.Fatal("nothing changed")
			}
		}
		change(store.ModeSetup)
		before := must(db.ChangesSince(ctx, Position{}, 1))(t).Latest
		noError(t, db.Restored(audit.WithActor(ctx, ana)))
		restored := must(db.ChangesSince(ctx, Position{}, 1))(t).Latest
		change(store.ModeLive) // whose number must be a new one
		latest := must(db.ChangesSince(ctx, Position{}, 1))(t).Latest
		if before == 0 || restored <= before || latest <= restored {
			t.Fatalf("numbers %d, %d, %d", before, restored, latest)
		}
		for _, cursor := range []int64{0, 1, before - 1, before, before + 1, before + 1_000_000, restored - 1} {
			if log, err := db.ChangesSince(ctx, Position{Seq: cursor}, 10); err != nil || !log.Reset || len(log.Changes) != 0 {
				t.Errorf("a node at %d: reset %t, %d changes, %v", cursor, log.Reset, len(log.Changes), err)
			}
		}
		if log, err := db.ChangesSince(ctx, Position{Seq: restored}, 10); err != nil || log.Reset || len(log.Changes) != int(latest-restored) {
			t.Errorf("a node that began afresh: reset %t, %d changes, %v", log.Reset, len(log.Changes), err)
		}
		entries, _, err := db.Audits(ctx, AuditFilter{}, store.Page{})
		noError(t, err)
		if len(entries) != 1 || entries[0].Action != "database.restore" || entries[0].Actor != ana {
			t.Errorf("audit log: %+v", entries)
		}
	})
}

// TestSnapshotWhileWriting: what was there before is in the copy, whole, though
// others write meanwhile.
func TestSnapshotWhileWriting(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "origin.db")
	db, err := Open(t.Context(), Config{URL: file})
	noError(t, err)
	defer func() { noError(t, db.Close()) }()
	account := func(n int) error {
		made, err := db.CreateAccount(context.Background(), store.Account{Name: fmt.Sprint(n), Agent: store.Agent{Email: "a@b.c", FullName: "A"}})
		if err == nil {
			_, _, err = db.UpdateAccount(context.Background(), made.ID, AccountPatch{Mode: new(store.ModeLive)})
		}
		return err
	}
	for n := range 200 {
		noError(t, account(n))
	}
	var writing sync.WaitGroup
	end, failed := make(chan struct{}), make(chan error, 1)
	writing.Go(func() {
		for n := 200; ; n++ {
			select {
			case <-end:
				return
			default:
			}
			if err := account(n); err != nil {
				failed <- err
				return
			}
		}
	})
	copied := filepath.Join(dir, "copy.db")
	noError(t, engine.Snapshot(t.Context(), file, copied))
	close(end)
	writing.Wait()
	select {
	case err := <-failed:
		t.Errorf("writing meanwhile: %v", err)
	default:
	}
	again, err := Open(t.Context(), Config{URL: copied})
	noError(t, err)
	defer func() { noError(t, again.Close()) }()
	var accounts, agents, seq, changes int
	noError(t, again.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM agents),
		(SELECT seq FROM change_counter), (SELECT max(seq) FROM changes)`).Scan(&accounts, &agents, &seq, &changes))
	if accounts < 200 || agents != accounts || seq != changes {
		t.Errorf("%d accounts, %d agents, change %d of %d: not of one moment", accounts, agents, changes, seq)
	}
}

func TestSnapshotRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := engine.Snapshot(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "copy.db")); err == nil {
		t.Error("copied a database that is not there")
	}
	file := filepath.Join(dir, "origin.db")
	db, err := Open(t.Context(), Config{URL: file})
	noError(t, err)
	noError(t, db.Close())
	if err := engine.Snapshot(t.Context(), file, file); err == nil {
		t.Error("copied over itself")
	}
}
