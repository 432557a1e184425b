package fleet

import (
	"cmp"
	"context"
	"errors"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const regionColumns = `id, region, public_key, system_key, created_at, revoked_at`

var regionTable = db.Table[store.RegionServer]{Noun: "region", From: "region_servers", ID: "id", Columns: regionColumns, Scan: scanRegion}

func scanRegion(row db.Row) (r store.RegionServer, err error) {
	err = row.Scan(&r.ID, &r.Region, &r.PublicKey, &r.SystemKey, db.Time(&r.CreatedAt), db.Time(&r.RevokedAt))
	return r, err
}

// AddRegionServer enrols the NATS server of a region. The id is made and creation is now
// where they are not set. ErrConflict when the id or the public key exists already.
func (f *Fleet) AddRegionServer(ctx context.Context, r store.RegionServer) (store.RegionServer, error) {
	now := f.db.Now()
	r.ID, r.CreatedAt, r.RevokedAt = cmp.Or(r.ID, store.NewID("reg", now)), db.TimeOr(r.CreatedAt, now), time.Time{}
	refused := errors.Join(valid.IDs("region server id", r.ID, "public key", r.PublicKey, "system key", r.SystemKey),
		valid.Times(r.CreatedAt), valid.Texts("region", r.Region))
	return written(r, audit.Write(ctx, f.db, "add region", refused, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		if _, err := t.Exec(ctx, `INSERT INTO region_servers (id, region, public_key, system_key, created_at) VALUES (?, ?, ?, ?, ?)`,
			r.ID, r.Region, r.PublicKey, r.SystemKey, store.Micros(r.CreatedAt)); err != nil {
			return err
		}
		return log.Add(ctx, t, audit.Entry{Action: "region.enrol", Target: r.ID, After: r})
	}))
}

// RegionServers lists the NATS servers of all regions, revoked ones as well, newest first.
func (f *Fleet) RegionServers(ctx context.Context, p store.Page) ([]store.RegionServer, string, error) {
	return regionTable.List(ctx, f.db, p)
}

// RevokeRegionServer ends the enrolment of a region's NATS server for good. changed is
// false when it was revoked before.
func (f *Fleet) RevokeRegionServer(ctx context.Context, id string) (revoked store.RegionServer, changed bool, err error) {
	return audit.Revoke(ctx, f.db, regionTable, id, func(r *store.RegionServer) *time.Time { return &r.RevokedAt })
}

// RevokedRegionServers reads the servers that are revoked.
func (f *Fleet) RevokedRegionServers(ctx context.Context) ([]store.RegionServer, error) {
	revoked, err := regionTable.Some(ctx, f.db, `revoked_at <> 0`)
	return revoked, db.Fail("list revoked regions", err)
}
