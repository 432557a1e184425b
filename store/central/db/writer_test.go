package db

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
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
