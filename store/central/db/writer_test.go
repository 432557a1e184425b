package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"partneredge/store"
	"partneredge/store/central/centraltest"
)

// emptyBatch gathers nothing.
type emptyBatch struct{}

func (emptyBatch) Lock(context.Context, []string) error { return nil }
func (emptyBatch) Mark() (reset func())                 { return func() {} }
func (emptyBatch) Flush(context.Context) error          { return nil }
func (emptyBatch) Committed()                           {}

// openWith opens a database whose only migration is create, and whose transactions have the
// batches of newBatch.
func openWith(t *testing.T, url, create string, newBatch func(*Tx) Batch) *DB {
	t.Helper()
	migration := &fstest.MapFile{Data: []byte(create)}
	d, err := Open(t.Context(), Config{
		URL:        url,
		Migrations: fstest.MapFS{"sqlite/0001_a.sql": migration, "postgres/0001_a.sql": migration},
		NewBatch:   newBatch,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// sqliteURL returns the address of a new database.
func sqliteURL(t *testing.T) string { return filepath.Join(t.TempDir(), "central.db") }

// numbers is a table to write to.
const numbers = `CREATE TABLE a (n BIGINT)`

// nothing is the batch of transactions that gather none.
func nothing(*Tx) Batch { return emptyBatch{} }

// TestAnsweredCallersShare has callers write one thing after the other on one processor:
// those who are answered together write their next together, rather than one of them
// alone and then the others.
func TestAnsweredCallersShare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var transactions atomic.Int64
	d := openWith(t, sqliteURL(t), numbers, func(*Tx) Batch {
		transactions.Add(1)
		return emptyBatch{}
	})
	const callers, writes, rounds = 4, 200, 20
	for range rounds {
		transactions.Store(0)
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
		// Now and then the scheduler has the writer run between two of them, and on a busy
		// machine often: in some round it does not.
		if transactions.Load() <= writes*3/2 {
			return
		}
	}
	t.Errorf("%d callers wrote %d times each in %d transactions, and no fewer %d times before", callers, writes, transactions.Load(), rounds-1)
}

// TestJobThatFailsHalfDone has a job that writes, and then refuses, share a transaction
// with another: of the one nothing is left, and of the other all. Nor is anything left where
// every job refuses.
func TestJobThatFailsHalfDone(t *testing.T) {
	d := openWith(t, sqliteURL(t), numbers, nothing)
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
		for _, all := range [][]*job{{insert(4, refused)}, {insert(5, refused), insert(6, refused)}} {
			w.run(all)
			for _, j := range all {
				if !errors.Is(j.err, refused) {
					t.Errorf("%v, want %v for each of %d jobs", j.err, refused, len(all))
				}
			}
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

// TestStatementThatFailsSpoilsNobody has a job that writes nothing, and whose statement fails
// at its second row, share a transaction with others. PostgreSQL then commits nothing, and
// says so to nobody.
func TestStatementThatFailsSpoilsNobody(t *testing.T) {
	d := openWith(t, centraltest.Postgres(t), numbers, nothing)
	w := &writer{db: d}
	defer w.drop()
	insert := func(n int) *job {
		return &job{fn: func(ctx context.Context, t *Tx) error {
			_, err := t.Exec(ctx, `INSERT INTO a VALUES (?)`, n)
			return err
		}}
	}
	before, after := insert(1), insert(3)
	failing := &job{fn: func(ctx context.Context, t *Tx) error {
		_, err := t.Strings(ctx, `SELECT (1 / n)::text FROM (VALUES (1), (0)) x (n)`)
		return err
	}}
	w.run([]*job{before, failing, after})
	if before.err != nil || failing.err == nil || after.err != nil {
		t.Errorf("%v, %v, %v, want an error of the second alone", before.err, failing.err, after.err)
	}
	var n int
	if err := d.QueryRow(t.Context(), `SELECT count(*) FROM a`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows of the two jobs that were told so, %v", n, err)
	}
}

// crowdedBatch fails at a flush for more than one job, and counts those for one that were
// committed.
type crowdedBatch struct {
	emptyBatch
	jobs      int
	committed *int
}

func (b *crowdedBatch) Mark() (reset func()) {
	b.jobs++
	return func() {}
}

func (b *crowdedBatch) Flush(context.Context) error {
	if b.jobs > 1 {
		return errors.New("too many at once")
	}
	return nil
}

func (b *crowdedBatch) Committed() { *b.committed += b.jobs }

// TestJobsRunAloneAfterAll: where the transaction of several jobs fails as a whole, each runs
// alone, be they but two. A batch is told of the commits alone.
func TestJobsRunAloneAfterAll(t *testing.T) {
	committed := 0
	d := openWith(t, sqliteURL(t), numbers, func(*Tx) Batch { return &crowdedBatch{committed: &committed} })
	w := &writer{db: d}
	defer w.drop()
	for _, n := range []int{2, 3} {
		committed = 0
		jobs := make([]*job, n)
		for i := range jobs {
			jobs[i] = &job{fn: func(context.Context, *Tx) error { return nil }}
		}
		w.run(jobs)
		for i, j := range jobs {
			if j.err != nil {
				t.Errorf("job %d of %d: %v", i, n, j.err)
			}
		}
		if committed != n {
			t.Errorf("%d of %d jobs are known to be committed", committed, n)
		}
	}
}

// TestRefusedWithOthersAndWrittenAlone has a job refuse beside another, in transactions that
// fail as a whole, and not when it runs alone: it is not answered with the refusal of then.
func TestRefusedWithOthersAndWrittenAlone(t *testing.T) {
	for name, test := range map[string]struct {
		half bool // it refuses half done, so that all run again in savepoints
		runs int  // that refuse
	}{
		"without savepoints": {false, 1},
		"in savepoints, too": {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			committed, runs := 0, 0
			d := openWith(t, sqliteURL(t), numbers, func(*Tx) Batch { return &crowdedBatch{committed: &committed} })
			w := &writer{db: d}
			other := &job{fn: func(context.Context, *Tx) error { return nil }}
			refused := &job{fn: func(ctx context.Context, t *Tx) error {
				runs++
				if refuses := runs <= test.runs; refuses && !test.half {
					return store.ErrConflict
				} else if _, err := t.Exec(ctx, `INSERT INTO a VALUES (?)`, runs); err != nil || !refuses {
					return err
				}
				return store.ErrConflict
			}}
			w.run([]*job{other, refused})
			w.drop()
			if other.err != nil || refused.err != nil || runs != test.runs+1 {
				t.Errorf("%v, %v after %d runs, want no error after %d", other.err, refused.err, runs, test.runs+1)
			}
			var all string
			if err := d.QueryRow(t.Context(), `SELECT group_concat(n, ' ') FROM a`).Scan(&all); err != nil || all != fmt.Sprint(runs) {
				t.Errorf("written are %s, %v, want %d", all, err, runs)
			}
		})
	}
}

// TestTransactionThatTheDatabaseUndoes has a job whose failure costs the whole transaction, as
// on a full disk: the jobs beside it are written all the same, and are told so.
func TestTransactionThatTheDatabaseUndoes(t *testing.T) {
	d := openWith(t, sqliteURL(t), numbers, nothing)
	w := &writer{db: d}
	full := errors.New("the disk is full")
	does := func(query string, then error) *job {
		return &job{fn: func(ctx context.Context, t *Tx) error {
			_, err := t.Exec(ctx, query)
			return cmp.Or(err, then)
		}}
	}
	before, undone, after := does(`INSERT INTO a VALUES (1)`, nil), does(`ROLLBACK`, full), does(`INSERT INTO a VALUES (3)`, nil)
	w.run([]*job{before, undone, after})
	w.drop()
	if before.err != nil || !errors.Is(undone.err, full) || after.err != nil {
		t.Errorf("%v, %v, %v, want %v for the second", before.err, undone.err, after.err, full)
	}
	var all string
	if err := d.QueryRow(t.Context(), `SELECT group_concat(n, ' ') FROM (SELECT n FROM a ORDER BY n)`).Scan(&all); err != nil || all != "1 3" {
		t.Errorf("written are %s, %v", all, err)
	}
}

// TestCommitThatFails: a write whose commit the database refuses is an error, is not tried
// again, and keeps nobody from writing.
func TestCommitThatFails(t *testing.T) {
	const table = `CREATE TABLE a (n BIGINT PRIMARY KEY, of BIGINT REFERENCES a (n) DEFERRABLE INITIALLY DEFERRED)`
	for kind, url := range map[string]func(*testing.T) string{
		"sqlite":   sqliteURL,
		"postgres": func(t *testing.T) string { return centraltest.Postgres(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			d := openWith(t, url(t), table, nothing)
			w := &writer{db: d}
			runs := 0
			insert := func(n, of int) error {
				j := &job{fn: func(ctx context.Context, t *Tx) error {
					runs++
					_, err := t.Exec(ctx, `INSERT INTO a VALUES (?, ?)`, n, of)
					return err
				}}
				w.run([]*job{j})
				return j.err
			}
			if err := insert(1, 2); err == nil || runs != 1 {
				t.Errorf("refers to nothing: %v after %d runs", err, runs)
			}
			if err := insert(3, 3); err != nil {
				t.Error(err)
			}
			var n int
			if err := d.QueryRow(t.Context(), `SELECT sum(n) FROM a`).Scan(&n); err != nil || n != 3 {
				t.Errorf("written is %d, %v", n, err)
			}
			w.drop()
			if err := d.write.Close(); err != nil {
				t.Fatal(err)
			}
			if err := insert(4, 4); err == nil || runs != 2 {
				t.Errorf("without a connection: %v after %d runs", err, runs)
			}
		})
	}
}

// TestWorkingDirectoryIsGone: a database of a relative path is not opened where nobody knows
// what that is relative to.
func TestWorkingDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Skipf("NOT TESTED: a working directory that is gone, which this system keeps: %v", err)
	}
	d := new(DB)
	if err := d.connect("central.db", false); err == nil {
		t.Error("opened")
	}
}
