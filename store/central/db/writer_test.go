package db

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"partneredge/store"
)

// emptyBatch gathers nothing.
type emptyBatch struct{}

func (emptyBatch) Lock(context.Context, []string) error { return nil }
func (emptyBatch) Mark() (reset func())                 { return func() {} }
func (emptyBatch) Flush(context.Context) error          { return nil }
func (emptyBatch) Committed()                           {}

// TestAnsweredCallersShare has callers write one thing after the other on one processor:
// those who are answered together write their next together, rather than one of them
// alone and then the others.
func TestAnsweredCallersShare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var transactions atomic.Int64
	d, err := Open(t.Context(), Config{
		URL:        filepath.Join(t.TempDir(), "central.db"),
		Migrations: fstest.MapFS{"sqlite/0001_a.sql": {Data: []byte(`CREATE TABLE a (n BIGINT)`)}},
		NewBatch: func(*Tx) Batch {
			transactions.Add(1)
			return emptyBatch{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	const callers, writes = 4, 200
	var writing sync.WaitGroup
	for range callers {
		writing.Go(func() {
			for range writes {
				if err := d.Write(t.Context(), "", func(context.Context, *Tx) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	// Now and then the scheduler has the writer run between two of them.
	if n := transactions.Load(); n > writes*3/2 {
		t.Errorf("%d callers wrote %d times each in %d transactions", callers, writes, n)
	}
}

// TestJobThatFailsHalfDone has a job that writes, and then refuses, share a transaction
// with another: of the one nothing is left, and of the other all.
func TestJobThatFailsHalfDone(t *testing.T) {
	d, err := Open(t.Context(), Config{
		URL:        filepath.Join(t.TempDir(), "central.db"),
		Migrations: fstest.MapFS{"sqlite/0001_a.sql": {Data: []byte(`CREATE TABLE a (n BIGINT)`)}},
		NewBatch:   func(*Tx) Batch { return emptyBatch{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	w := &writer{db: d}
	for _, refused := range []error{store.ErrConflict, errors.New("something else")} {
		insert := func(n int, then error) *job {
			return &job{fn: func(ctx context.Context, t *Tx) error {
				_, err := t.Exec(ctx, `INSERT INTO a VALUES (?)`, n)
				return cmp.Or(err, then)
			}}
		}
		before, half, after := insert(1, nil), insert(2, refused), insert(3, nil)
		w.run([]*job{before, half, after})
		if before.err != nil || !errors.Is(half.err, refused) || after.err != nil {
			t.Errorf("%v, %v, %v, want %v for the second", before.err, half.err, after.err, refused)
		}
	}
	w.drop()
	var all string
	if err := d.QueryRow(t.Context(), `SELECT group_concat(n, ' ') FROM (SELECT n FROM a ORDER BY n)`).Scan(&all); err != nil || all != "1 1 3 3" {
		t.Errorf("written are %s, %v", all, err)
	}
	// Who keeps the only connection keeps everybody from writing.
	if err := d.Write(t.Context(), "", func(context.Context, *Tx) error { return nil }); err != nil {
		t.Error(err)
	}
}
