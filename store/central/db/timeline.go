package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// timelineQuery is an expression for the timeline that a PostgreSQL writes: its
// number changes when a standby is promoted, and when a database is put back to an
// earlier point in time. It fails on a server that only reads.
const timelineQuery = `substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`

// Timeline returns an SQL expression for the timeline that the database is on. Each
// statement evaluates it anew, so that it is right whatever a pooler does with
// connections. kept names the column with the timeline that was noted last. Where the
// database does not say its timeline, Timeline returns kept: none ever differs from it.
func (d dialect) Timeline(kept string) string {
	if d.timeline {
		return timelineQuery
	}
	return kept
}

// findTimeline learns whether the database says which timeline it is on.
func (d *DB) findTimeline(ctx context.Context) error {
	if !d.postgres {
		return nil
	}
	var timeline string
	err := d.read.QueryRowContext(ctx, `SELECT `+timelineQuery).Scan(&timeline)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && classifyPostgres(refused.Code) == nil {
		d.log.Warn("the database does not say which timeline it is on: after a failover to a standby that was behind, restart the origins",
			"hint", "GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_lsn() TO the origin's role", "err", err)
		return nil
	}
	d.timeline = err == nil
	return err
}
