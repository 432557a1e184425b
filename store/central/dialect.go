package central

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"partneredge/store"
)

// dialect is what differs between the databases. Queries are written with "?"
// for parameters and are otherwise the same on both.
type dialect struct {
	name     string // also the folder of its migrations
	postgres bool
}

// connect opens the pools; whether the database answers shows at the first use.
func (db *DB) connect(address string) error {
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		db.dialect = dialect{name: "postgres", postgres: true}
		config, err := pgx.ParseConfig(address)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrInvalid, err) // pgx leaves out the password
		}
		pool := stdlib.OpenDB(*config)
		pool.SetMaxOpenConns(16)
		pool.SetMaxIdleConns(16)
		pool.SetConnMaxIdleTime(5 * time.Minute)
		db.read, db.write = pool, pool
		return nil
	case strings.HasPrefix(address, "sqlite://"):
		address = strings.TrimPrefix(address, "sqlite://")
	case strings.Contains(address, "://"):
		return fmt.Errorf("read its URL: %w: only sqlite:// and postgres:// are known", store.ErrInvalid)
	}
	if address == "" {
		address = "central.db"
	}
	return db.connectSQLite(address)
}

func (db *DB) connectSQLite(path string) error {
	db.dialect = dialect{name: "sqlite"}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// SQLite gives its log the mode of the database, so making the file first
	// keeps both from other users.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	file := "file://" + (&url.URL{Path: path}).EscapedPath()
	shared := "?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	if db.write, err = sql.Open("sqlite", file+shared+"&_pragma=temp_store(memory)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)"); err != nil {
		return err
	}
	db.write.SetMaxOpenConns(1)
	db.write.SetConnMaxLifetime(0)
	if db.read, err = sql.Open("sqlite", file+shared+"&_pragma=query_only(1)"); err != nil {
		_ = db.write.Close()
		return err
	}
	db.read.SetMaxOpenConns(8)
	db.read.SetMaxIdleConns(8)
	return nil
}

// bind turns "?" into "$1", "$2" … for PostgreSQL.
func (d dialect) bind(query string) string {
	if !d.postgres || strings.IndexByte(query, '?') < 0 {
		return query
	}
	b := make([]byte, 0, len(query)+16)
	n := int64(0)
	for i := range len(query) {
		if query[i] != '?' {
			b = append(b, query[i])
			continue
		}
		n++
		b = strconv.AppendInt(append(b, '$'), n, 10)
	}
	return string(b)
}

// in is a condition that column is one of the values of one parameter, which
// set makes.
func (d dialect) in(column string) string {
	if d.postgres {
		return column + " = ANY(?)"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// set is the parameter of in.
func (d dialect) set(values []string) any {
	if d.postgres {
		return values
	}
	text, _ := json.Marshal(values) // of strings: cannot fail
	return string(text)
}

// lock makes a SELECT hold its rows until the transaction ends. SQLite has one
// writer, which holds everything.
func (d dialect) lock(query string) string {
	if d.postgres {
		return query + " FOR NO KEY UPDATE"
	}
	return query
}

// column is a column of rows that are written together: either text or ints.
type column struct {
	name string
	text []string
	ints []int64
}

func (c column) len() int { return len(c.text) + len(c.ints) }

func (c column) value(i int) any {
	if c.text != nil {
		return c.text[i]
	}
	return c.ints[i]
}

// bulkRows is the most rows that one statement of SQLite carries. The driver
// looks for each parameter among all of a statement's, so the cost of a
// statement grows with the square of its rows. Numbers of rows are powers of
// two up to it, so that few statements need preparing.
const bulkRows = 8

// chunk is how many of n rows the next statement carries.
func (d dialect) chunk(n int) int {
	if d.postgres {
		return n
	}
	size := bulkRows
	for size > n {
		size /= 2
	}
	return size
}

// rows makes the rows from..to of columns the table v of a query that comes
// after: "WITH v(a, b) AS (…) ".
func (d dialect) rows(columns []column, from, to int) (with string, args []any) {
	var b strings.Builder
	b.WriteString("WITH v(")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.name)
	}
	if d.postgres {
		b.WriteString(") AS (SELECT * FROM unnest(")
		for i, c := range columns {
			if i > 0 {
				b.WriteString(", ")
			}
			if c.text != nil {
				b.WriteString("?::text[]")
				args = append(args, c.text[from:to])
			} else {
				b.WriteString("?::bigint[]")
				args = append(args, c.ints[from:to])
			}
		}
		b.WriteString(")) ")
		return b.String(), args
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	b.WriteString(") AS (VALUES ")
	args = make([]any, 0, (to-from)*len(columns))
	for i := from; i < to; i++ {
		if i > from {
			b.WriteString(", ")
		}
		b.WriteString(row)
		for _, c := range columns {
			args = append(args, c.value(i))
		}
	}
	b.WriteString(") ")
	return b.String(), args
}
