package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"partneredge/store/central/centraltest"
)

// countingConnector makes connections to a SQLite database that count what they prepare.
type countingConnector struct {
	inner    driver.Driver
	address  string
	prepared *atomic.Int64
}

// Connect implements driver.Connector.
func (c countingConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.inner.Open(c.address)
	return countingConn{conn, c.prepared}, err
}

// Driver implements driver.Connector.
func (c countingConnector) Driver() driver.Driver { return c.inner }

// countingConn hides that a connection can query by itself, so that all it runs is prepared
// by Prepare.
type countingConn struct {
	driver.Conn
	prepared *atomic.Int64
}

// Prepare implements driver.Conn.
func (c countingConn) Prepare(query string) (driver.Stmt, error) {
	c.prepared.Add(1)
	return c.Conn.Prepare(query)
}

const frequentQuery = `SELECT n FROM a WHERE n = ?`

func openFrequent(t *testing.T, url string) *DB {
	t.Helper()
	schema := &fstest.MapFile{Data: []byte(`CREATE TABLE a (n BIGINT); INSERT INTO a VALUES (7), (8)`)}
	d, err := Open(t.Context(), Config{URL: url, Migrations: fstest.MapFS{"sqlite/0001_a.sql": schema, "postgres/0001_a.sql": schema}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// openCounting opens a SQLite database that counts what its readers prepare, who share so
// many connections.
func openCounting(t *testing.T, connections int) (*DB, *atomic.Int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.db")
	d := openFrequent(t, file)
	prepared := new(atomic.Int64)
	pool := sql.OpenDB(countingConnector{d.read.Driver(), "file://" + file, prepared})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	if err := d.read.Close(); err != nil {
		t.Fatal(err)
	}
	d.read, d.frequent = pool, &frequent{pool: pool}
	return d, prepared
}

// kept returns the queries whose statements Frequent keeps.
func kept(d *DB) []string {
	d.frequent.mu.Lock()
	defer d.frequent.mu.Unlock()
	return slices.Collect(maps.Keys(d.frequent.stmts))
}

// runFrequent runs the query once.
func runFrequent(t *testing.T, q Querier, n int64) {
	t.Helper()
	got, err := One(t.Context(), q, func(row Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, frequentQuery, n)
	if err != nil || got != n {
		t.Fatalf("read %d, %v, want %d", got, err, n)
	}
}

// TestFrequentQueriesAreKept counts what SQLite prepares: of a frequent query one statement
// on each connection, however often it runs, and of any other one each time.
func TestFrequentQueriesAreKept(t *testing.T) {
	d, prepared := openCounting(t, 2)
	for run := range int64(3) {
		runFrequent(t, d, 7)
		if got := prepared.Load(); got != run+1 {
			t.Fatalf("run %d of a query that is not kept: %d were prepared", run, got)
		}
	}
	prepared.Store(0)
	for range 10 {
		runFrequent(t, d.Frequent(), 7)
		runFrequent(t, d.Frequent(), 8)
	}
	if got := prepared.Load(); got != 1 {
		t.Errorf("%d were prepared on one connection", got)
	}
	rows, err := d.Frequent().Query(t.Context(), frequentQuery, 7) // takes a connection
	if err != nil {
		t.Fatal(err)
	}
	runFrequent(t, d.Frequent(), 8)
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		runFrequent(t, d.Frequent(), 7)
	}
	if got := prepared.Load(); got != 2 {
		t.Errorf("%d were prepared on two connections", got)
	}
	if got := kept(d); !slices.Equal(got, []string{frequentQuery}) {
		t.Errorf("kept are %q", got)
	}
}

// TestFrequentQueriesOfPostgresAreKept has PostgreSQL count the runs of a statement on one
// connection.
func TestFrequentQueriesOfPostgresAreKept(t *testing.T) {
	d := openFrequent(t, centraltest.Postgres(t))
	d.read.SetMaxOpenConns(1)
	const runs = 10
	for range runs {
		runFrequent(t, d.Frequent(), 7)
	}
	counts, err := All(t.Context(), d, func(row Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT generic_plans + custom_plans FROM pg_prepared_statements WHERE statement = ?`, d.bind(frequentQuery))
	if err != nil || !slices.Equal(counts, []int64{runs}) {
		t.Errorf("statements by their runs: %v, %v", counts, err)
	}
}

// TestFrequentQueriesOfManyCallers: callers that come at once share one statement, and a
// query that cannot be prepared is not kept.
func TestFrequentQueriesOfManyCallers(t *testing.T) {
	d := openFrequent(t, filepath.Join(t.TempDir(), "a.db"))
	done := make(chan error)
	for range 20 {
		go func() {
			rows, err := d.Frequent().Query(t.Context(), frequentQuery, 7)
			if err == nil {
				err = rows.Close()
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if rows, err := d.Frequent().Query(t.Context(), `SELECT nothing FROM nowhere`); err == nil {
		_ = rows.Close()
		t.Error("a query of no table ran")
	}
	if got := kept(d); !slices.Equal(got, []string{frequentQuery}) {
		t.Errorf("kept are %q", got)
	}
}
