package usage

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

// TestReadsNoOther asks for the plans of the queries of one key's usage and of the
// pruning while there are 5000 rows of others: the database finds theirs by an index.
func TestReadsNoOther(t *testing.T) {
	for kind, url := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "central.db"), "postgres": centraltest.Postgres(t)} {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			d, err := db.Open(ctx, db.Config{URL: url, Migrations: os.DirFS("../migrations"), NewBatch: func(*db.Tx) db.Batch { return noBatch{} }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := d.WriteAlone(ctx, fill); err != nil {
				t.Fatal(err)
			}
			for query, args := range map[string][]any{daysOfKey: {"key_7", 20_030}, oldest: {20_001, 10}} {
				plan := dbtest.Explain(t, d, query, args...)
				if !strings.Contains(plan, "key_usage") || strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") ||
					strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "TEMP B-TREE FOR ORDER") {
					t.Errorf("the plan reads rows of others:\n%s", plan)
				}
			}
		})
	}
}

// noBatch gathers nothing.
type noBatch struct{}

func (noBatch) Lock(context.Context, []string) error { return nil }
func (noBatch) Mark() func()                         { return func() {} }
func (noBatch) Flush(context.Context) error          { return nil }
func (noBatch) Committed()                           {}

// fill writes the usage of 100 keys on 50 days.
func fill(ctx context.Context, t *db.Tx) error {
	if _, err := t.Exec(ctx, `INSERT INTO accounts (id, name, mode, created_at) VALUES ('acc_1', 'a', 'live', 1)`); err != nil {
		return err
	}
	var rows []row
	for i := range 100 {
		id := fmt.Sprintf("key_%d", i)
		if _, err := t.Exec(ctx, `INSERT INTO keys (id, account_id, hash, environment, scopes, allowlist, rate_limit, label, created_at, expires_at)
			VALUES (?, 'acc_1', ?, 'live', '[]', '[]', 100, '', 1, 1)`, id, []byte(id)); err != nil {
			return err
		}
		for day := range 50 {
			rows = append(rows, row{Counter{KeyID: id, Day: 20_000 + store.Day(day), Node: "node_1", Boot: "b"}, Count{Requests: 1}})
		}
	}
	if err := write(ctx, t, rows); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `ANALYZE key_usage`)
	return err
}
