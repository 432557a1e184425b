package db

import (
	"context"
	"path/filepath"
	"testing"
)

// TestReadsKeepTheirStatements counts what SQLite prepares for queries in transactions: each
// once again after its first run, and then no more, though there is but one connection.
func TestReadsKeepTheirStatements(t *testing.T) {
	d, prepared := openCounting(t, 1)
	for run := range int64(5) {
		before := prepared.Load()
		err := d.Read(t.Context(), func(ctx context.Context, q Querier) error {
			runFrequent(t, q, 7)
			runFrequent(t, q, 8)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// BEGIN and ROLLBACK are the driver's own.
		if got, most := prepared.Load()-before, map[int64]int64{0: 3}[run]; got != most {
			t.Errorf("run %d: %d were prepared, want %d", run, got, most)
		}
	}
}

// TestReadSeesOneMoment writes between two queries of a transaction, of which the second
// sees nothing on SQLite. After it, and after one that failed, the connection is free.
func TestReadSeesOneMoment(t *testing.T) {
	d := openFrequent(t, filepath.Join(t.TempDir(), "a.db"))
	d.read.SetMaxOpenConns(1)
	count := func(q Querier) int {
		n, err := One(t.Context(), q, Column[int], `SELECT count(*) FROM a`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for run := range 3 {
		err := d.Read(t.Context(), func(ctx context.Context, q Querier) error {
			before := count(q)
			if _, err := d.write.ExecContext(ctx, `INSERT INTO a VALUES (9)`); err != nil {
				return err
			}
			if after := count(q); after != before {
				t.Errorf("run %d: %d rows, and then %d", run, before, after)
			}
			_, err := q.Query(ctx, `SELECT nothing FROM nowhere`)
			return err
		})
		if err == nil {
			t.Errorf("run %d: a query of no table ran", run)
		}
		if got := count(d); got != 3+run {
			t.Errorf("run %d: %d rows are kept, want %d", run, got, 3+run)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	if err := d.Read(ended, func(context.Context, Querier) error { cancel(); return nil }); err != nil {
		t.Errorf("a read whose caller went away at its end: %v", err)
	}
	count(d)
}
