package db

import (
	"context"
	"testing"
	"testing/fstest"

	"partneredge/store/central/centraltest"
)

// TestIdleTransactionsEnd: PostgreSQL ends each transaction that does nothing for longer than
// others can wait for what it has locked.
func TestIdleTransactionsEnd(t *testing.T) {
	d, err := Open(t.Context(), Config{
		URL:        centraltest.Postgres(t),
		Migrations: fstest.MapFS{"postgres/0001_a.sql": {Data: []byte(`CREATE TABLE migrated AS SELECT current_setting('idle_in_transaction_session_timeout') AS most`)}},
		NewBatch:   func(*Tx) Batch { return emptyBatch{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const want = "20s"
	look := func(query string) Func {
		return func(ctx context.Context, tx *Tx) error {
			var most string
			if err := tx.Get(ctx, query, nil, &most); err != nil {
				return err
			}
			if most != want {
				t.Errorf("%s: %s, want %s", query, most, want)
			}
			return nil
		}
	}
	const setting = `SELECT current_setting('idle_in_transaction_session_timeout')`
	if err := d.Write(t.Context(), "", look(setting)); err != nil {
		t.Error(err)
	}
	if err := d.WriteAlone(t.Context(), look(setting)); err != nil {
		t.Error(err)
	}
	if err := d.WriteAlone(t.Context(), look(`SELECT most FROM migrated`)); err != nil {
		t.Error(err)
	}
}
