package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"partneredge/store"
)

func TestClassify(t *testing.T) {
	postgres := func(code string) error { return &pgconn.PgError{Code: code} }
	for _, tt := range []struct {
		err  error
		want error // nil: none
	}{
		{sql.ErrNoRows, store.ErrNotFound},
		{postgres("23505"), store.ErrConflict},
		{postgres("23503"), store.ErrNotFound},
		{postgres("22001"), store.ErrInvalid},
		{postgres("53100"), store.ErrUnavailable}, // disk full
		{postgres("57P01"), store.ErrUnavailable}, // shutting down
		{postgres("42601"), nil},                  // a syntax error is this program's
		{driver.ErrBadConn, store.ErrUnavailable},
		{sql.ErrConnDone, store.ErrUnavailable},
		{io.EOF, store.ErrUnavailable},
		{io.ErrUnexpectedEOF, store.ErrUnavailable},
		{&net.OpError{Op: "read", Err: os.ErrClosed}, store.ErrUnavailable},
		{context.DeadlineExceeded, store.ErrUnavailable},
		{errors.New("anything else"), nil},
	} {
		if got := classify(fmt.Errorf("write events: %w", tt.err)); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.err, got, tt.want)
		}
	}
}
