package central

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"partneredge/store"
	engine "partneredge/store/central/db"
)

// follower is a node, as far as the changes are concerned.
type follower struct {
	t  *testing.T
	at Position
}

// ask follows the changes, and returns which it was told, or that it was told to
// begin afresh.
func (f *follower) ask(db *DB) (refs []string, reset bool) {
	f.t.Helper()
	log := must(db.ChangesSince(f.t.Context(), f.at, 0))(f.t)
	for _, c := range log.Changes {
		refs = append(refs, c.Ref)
	}
	f.at = Position{History: log.History, Seq: log.Latest}
	return refs, log.Reset
}

// newKeyOf makes a key of a new account, whose revocation is a change.
func newKeyOf(t *testing.T, db *DB, n byte) store.Key {
	t.Helper()
	a := newAccount(t, db, store.ModeLive)
	return must(db.CreateKey(t.Context(), store.Key{AccountID: a.ID, Hash: [32]byte{n}, Environment: store.Live, Scopes: []string{store.ScopeReadAgent}}))(t)
}

func revokeKey(t *testing.T, db *DB, id string) {
	t.Helper()
	_, changed, err := db.RevokeKey(context.Background(), id)
	if noError(t, err); !changed {
		t.Fatal("nothing was revoked")
	}
}

// TestOriginsThatStart: each begins a history, and who follows goes on, at any of
// them.
func TestOriginsThatStart(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		first := open(t, p)
		keys := []store.Key{newKeyOf(t, first, 1), newKeyOf(t, first, 2), newKeyOf(t, first, 3)}
		behind, inStep := follower{t: t}, follower{t: t}
		behind.ask(first)
		revokeKey(t, first, keys[0].ID)
		inStep.ask(first)
		second := open(t, p)
		revokeKey(t, first, keys[1].ID)
		revokeKey(t, second, keys[2].ID)
		if inStep.at.History == must(second.ChangesSince(t.Context(), Position{}, 1))(t).History {
			t.Error("the second start began no history")
		}
		for f, want := range map[*follower]int{&behind: 3, &inStep: 2} {
			if refs, reset := f.ask(second); reset || len(refs) != want {
				t.Errorf("reset %t, told %v, want %d changes", reset, refs, want)
			}
			if refs, reset := f.ask(first); reset || len(refs) != 0 {
				t.Errorf("at the first: reset %t, told %v", reset, refs)
			}
		}
	})
}

// TestFileCopiedBack: a SQLite file is put back without edge restore. Numbers are
// given again, and who knows those that were given before is told so.
func TestFileCopiedBack(t *testing.T) {
	dir := t.TempDir()
	file, copied := filepath.Join(dir, "origin.db"), filepath.Join(dir, "copied.db")
	db := must(Open(t.Context(), Config{URL: file}))(t)
	victim, other := newKeyOf(t, db, 1), newKeyOf(t, db, 2)
	behind, ahead := follower{t: t}, follower{t: t}
	behind.ask(db)
	noError(t, engine.Snapshot(t.Context(), file, copied))
	revokeKey(t, db, other.ID)
	ahead.ask(db)
	noError(t, db.Close())
	noError(t, os.Rename(copied, file))
	db = open(t, place{"sqlite", file})
	revokeKey(t, db, victim.ID) // with the number that the other's revocation had
	revokeKey(t, db, other.ID)
	if _, reset := ahead.ask(db); !reset {
		t.Error("who knew more than the copy was not told to begin afresh")
	}
	if refs, reset := behind.ask(db); reset || len(refs) != 2 || refs[0] != victim.ID {
		t.Errorf("who knew no more than the copy: reset %t, told %v", reset, refs)
	}
}

// TestRestoredTwice: the same copy is put back twice, and no number is given again.
func TestRestoredTwice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "origin.db")
	db := must(Open(t.Context(), Config{URL: file}))(t)
	key := newKeyOf(t, db, 1)
	noError(t, db.Close())
	var latest int64
	known := follower{t: t}
	for _, name := range []string{"one.db", "two.db"} {
		copied := filepath.Join(dir, name)
		noError(t, engine.Snapshot(t.Context(), file, copied))
		db := open(t, place{"sqlite", copied})
		noError(t, db.Restored(t.Context()))
		if _, reset := known.ask(db); !reset {
			t.Errorf("%s: who followed another is not told to begin afresh", name)
		}
		if known.at.Seq <= latest {
			t.Errorf("%s: numbers go on from %d, given before up to %d", name, known.at.Seq, latest)
		}
		revokeKey(t, db, key.ID)
		known.ask(db)
		latest = known.at.Seq
	}
}
