package quarantine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
)

// noBatch gathers nothing.
type noBatch struct{}

func (noBatch) Lock(context.Context, []string) error { return nil }
func (noBatch) Mark() (reset func())                 { return func() {} }
func (noBatch) Flush(context.Context) error          { return nil }
func (noBatch) Committed()                           {}

// eachDB runs a test on a database of each kind.
func eachDB(t *testing.T, test func(t *testing.T, d *db.DB)) {
	for kind, url := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "origin.db") },
		"postgres": centraltest.Postgres,
	} {
		t.Run(kind, func(t *testing.T) {
			d, err := db.Open(t.Context(), db.Config{
				URL: url(t), Migrations: os.DirFS("../migrations"), NewBatch: func(*db.Tx) db.Batch { return noBatch{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			test(t, d)
		})
	}
}

// TestRemovalReadsNoOthers asks for the plans of what a deletion looks for: both columns of each
// condition are searched by their indexes, while the table is empty as well.
func TestRemovalReadsNoOthers(t *testing.T) {
	eachDB(t, func(t *testing.T, d *db.DB) {
		for query, indexes := range map[string][]string{
			`SELECT ` + columns + `, body FROM quarantine WHERE ` + underID + ` ORDER BY n DESC`: {"sqlite_autoindex_quarantine_1", "quarantine_of_lead"},
			`DELETE FROM quarantine WHERE ` + underID:                                            {"sqlite_autoindex_quarantine_1", "quarantine_of_lead"},
			`DELETE FROM quarantine WHERE ` + releasedTo + ` RETURNING id`:                       {"quarantine_released_as", "quarantine_released_to"},
		} {
			var plan string
			if d.Postgres() { // as a write plans
				if err := d.WriteAlone(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					lines, err := tx.Strings(ctx, "EXPLAIN "+query, "lead_1", "lead_1")
					plan = strings.Join(lines, "\n")
					return err
				}); err != nil {
					t.Fatal(err)
				}
			} else {
				plan = dbtest.Explain(t, d, query, "lead_1", "lead_1")
			}
			for _, index := range indexes {
				if d.Postgres() {
					index = "Bitmap Index Scan on " + strings.Replace(index, "sqlite_autoindex_quarantine_1", "quarantine_id_key", 1)
				}
				if !strings.Contains(plan, index) {
					t.Errorf("%s does not go by %s:\n%s", query, index, plan)
				}
			}
		}
	})
}

// TestRoom counts what waits, of all nodes and of one, by an index that has all it reads: each
// limit bounds what a node may add, and what is settled takes no room.
func TestRoom(t *testing.T) {
	const half = mostBytes / ofNode
	type kept struct {
		node  string
		state store.QuarantineState
		bytes int64
		leads int // of as many bytes each
	}
	wait, long := store.QuarantineWaiting, strings.Repeat("n", mostText+1)
	eachDB(t, func(t *testing.T, d *db.DB) {
		for _, c := range []struct {
			kept  []kept
			node  string
			bytes int64 // of one more lead
			fits  bool
		}{
			{[]kept{{"a", wait, 0, mostLeads/ofNode - 1}, {"b", wait, 0, mostLeads / ofNode}}, "a", 0, true},
			{[]kept{{"a", wait, 0, mostLeads / ofNode}}, "a", 0, false},
			{[]kept{{"b", wait, 0, mostLeads / ofNode}, {"c", wait, 0, mostLeads / ofNode}}, "a", 0, false},
			{nil, "a", half, true},
			{nil, "a", half + 1, false},
			{[]kept{{"a", wait, half - 5, 1}}, "a", 5, true},
			{[]kept{{"a", wait, half - 5, 1}}, "a", 6, false},
			{[]kept{{"b", wait, half - 5, 1}}, "a", 6, true},
			{[]kept{{"b", wait, half, 1}, {"c", wait, half - 5, 1}}, "a", 5, true},
			{[]kept{{"b", wait, half, 1}, {"c", wait, half - 5, 1}}, "a", 6, false},
			{[]kept{{"a", store.QuarantineReleased, half, 1}, {"a", store.QuarantineDiscarded, half, 1}}, "a", 6, true},
			{[]kept{{"", wait, half - 5, 1}}, long, 5, true}, // whose id is not held
			{[]kept{{"", wait, half - 5, 1}}, long, 6, false},
		} {
			if err := d.WriteAlone(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, `DELETE FROM quarantine`); err != nil {
					return err
				}
				for i, k := range c.kept {
					for n := range k.leads {
						if _, err := tx.Exec(ctx, `INSERT INTO quarantine (`+columns+`, body) VALUES (?, '', '', '', ?, '', ?, ?, 0, 0, ?)`,
							fmt.Sprint(i, ".", n), k.node, string(k.state), k.bytes, bodyOf(nil)); err != nil {
							return err
						}
					}
				}
				left, err := roomFor(ctx, tx, c.node)
				if err != nil {
					return err
				}
				if fits := left.leads > 0 && left.bytes >= c.bytes; fits != c.fits {
					t.Errorf("with %v kept, %d bytes of node %.5q: %+v is left", c.kept, c.bytes, c.node, left)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if d.Postgres() {
			return
		}
		plan := dbtest.Explain(t, d, taken, "a", "a", string(wait))
		if plan != "SEARCH quarantine USING COVERING INDEX quarantine_room (state=?)" {
			t.Errorf("the room is found by other means:\n%s", plan)
		}
	})
}
