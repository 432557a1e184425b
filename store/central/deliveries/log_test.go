package deliveries

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// TestListsCanBeEnded asks for SQLite's plans of lists: each reads its page in the first
// step, which alone ends with its context.
func TestListsCanBeEnded(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{URL: filepath.Join(t.TempDir(), "origin.db"), Migrations: os.DirFS("../migrations")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	s := New(d, nil, slog.New(slog.DiscardHandler))
	for _, f := range []Filter{{}, {Target: "typo"}, {EventType: "none"}, {Refused: true}, {State: store.StateDead, Target: "typo"}} {
		l, err := s.listing(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		f.narrow(&l)
		plan := dbtest.Explain(t, d, l.query(), append(l.args, 51)...)
		if !strings.HasPrefix(plan, "MATERIALIZE page\n") {
			t.Errorf("%+v is read row by row:\n%s", f, plan)
		}
	}
}
