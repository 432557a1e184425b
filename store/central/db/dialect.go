package db

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"partneredge/store"
	"partneredge/store/durable"
)

// dialect writes what differs between the databases. Queries have "?" for
// parameters and are otherwise the same on both.
type dialect struct {
	name     string // also the folder of its migrations
	postgres bool
	timeline bool // whether it says which timeline it is on
}

// connect opens the pools; whether the database answers shows at the first use. exclusive is
// that of Config.
func (d *DB) connect(address string, exclusive bool) error {
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		d.dialect = dialect{name: "postgres", postgres: true}
		config, err := pgx.ParseConfig(address)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrInvalid, err) // pgx leaves out the password
		}
		dial := dialer()
		if severalServers(config) {
			dial.Timeout = unansweredMost
		}
		config.DialFunc = dial.DialContext
		pool := stdlib.OpenDB(*config)
		pool.SetMaxOpenConns(16)
		pool.SetMaxIdleConns(16)
		pool.SetConnMaxIdleTime(5 * time.Minute)
		d.read, d.write = pool, pool
		return nil
	case strings.HasPrefix(address, "sqlite://"):
		address = strings.TrimPrefix(address, "sqlite://")
	case strings.Contains(address, "://"):
		return fmt.Errorf("read its URL: %w: only sqlite:// and postgres:// are known", store.ErrInvalid)
	}
	if address == "" {
		address = "central.db"
	}
	return d.connectSQLite(address, exclusive)
}

// dialer returns a dialer of connections that end within half a minute of their server's loss:
// one whose machine lost its power says nothing, and a statement would wait for it for a
// quarter of an hour, while its standby has taken over.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4},
		Control:         limitUnacknowledged,
	}
}

// unansweredMost bounds how long a server that does not answer keeps a connection from the next
// one: most callers have 2 or 10 s for all. It lasts until a first packet that was lost has been
// sent again, after a second.
const unansweredMost = 1200 * time.Millisecond

// severalServers reports whether a database's URL names more than one server.
func severalServers(config *pgx.ConnConfig) bool {
	return slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port // else it is without TLS
	})
}

// unacknowledgedMost bounds how long what was sent may stay without an acknowledgement.
const unacknowledgedMost = 20 * time.Second

// busyTimeout bounds the wait of SQLite for another process that has the file, in milliseconds.
const busyTimeout = "10000"

func (d *DB) connectSQLite(path string, exclusive bool) error {
	d.dialect = dialect{name: "sqlite"}
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
	if exclusive {
		if d.unlock, err = lockDatabase(path); err != nil {
			return err
		}
	}
	file := "file://" + (&url.URL{Path: path}).EscapedPath()
	shared := "?_pragma=busy_timeout(" + busyTimeout + ")&_pragma=foreign_keys(1)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	// What is removed is overwritten: it is not to be read in the file any more.
	if d.write, err = sql.Open("sqlite", file+shared+"&_pragma=secure_delete(1)&_pragma=temp_store(memory)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)"); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	d.write.SetConnMaxLifetime(0)
	if d.read, err = sql.Open("sqlite", file+shared+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	d.read.SetMaxOpenConns(8)
	d.read.SetMaxIdleConns(8)
	return nil
}

// lockDatabase locks a database file that is there, under each of its names. The lock is that
// of a file beside it: SQLite has locks of its own on the database, which end for all of this
// process as soon as it closes that file once.
func lockDatabase(path string) (unlock func(), err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	unlock, err = durable.LockFile(path + ".lock")
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s is %w", path, durable.ErrLocked)
	}
	return unlock, err
}

// Kind returns "sqlite" or "postgres".
func (d dialect) Kind() string { return d.name }

// Postgres reports whether the database is PostgreSQL, for the few queries that
// are not the same on both.
func (d dialect) Postgres() bool { return d.postgres }

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

// In returns the condition that a column is one of the values of a parameter
// which Set makes.
func (d dialect) In(column string) string {
	if d.postgres {
		return column + " = ANY(?)"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// Set returns the parameter of In.
func (d dialect) Set(values []string) any {
	if d.postgres {
		return values
	}
	return JSONText(values)
}

// InBytes is In for a column of bytes, whose parameter SetBytes makes.
func (d dialect) InBytes(column string) string {
	if d.postgres {
		return column + " = ANY(?)"
	}
	return column + " IN (SELECT unhex(value) FROM json_each(?))"
}

// SetBytes returns the parameter of InBytes.
func (d dialect) SetBytes(values [][]byte) any {
	if d.postgres {
		return values
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = hex.EncodeToString(v)
	}
	return JSONText(texts)
}

// ForUpdate makes a SELECT lock its rows until the transaction ends. SQLite has
// one writer, which locks everything.
func (d dialect) ForUpdate(query string) string {
	if d.postgres {
		return query + " FOR NO KEY UPDATE"
	}
	return query
}

// ForDelete is ForUpdate for rows that are to be deleted: it also waits for those who add
// what refers to them, and keeps them out.
func (d dialect) ForDelete(query string) string {
	if d.postgres {
		return query + " FOR UPDATE"
	}
	return query
}
