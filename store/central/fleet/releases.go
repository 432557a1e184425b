package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const releaseColumns = `id, version, digest, size, modules, signers, created_at`

var releaseTable = db.Table[store.Release]{Noun: "release", From: "releases", ID: "id", Columns: releaseColumns, Scan: scanRelease}

func scanRelease(row db.Row) (r store.Release, err error) {
	err = row.Scan(&r.ID, &r.Version, &r.Digest, &r.Size, db.JSON(&r.Modules), db.JSON(&r.Signers), db.Time(&r.CreatedAt))
	return r, err
}

// AddRelease notes a release, whose parts are there already. The id is made and
// creation is now. One that is noted already is returned as it is, with added
// false, but for signers who came later; ErrConflict when its version is that of
// another.
func (f *Fleet) AddRelease(ctx context.Context, r store.Release) (_ store.Release, added bool, err error) {
	r.CreatedAt = f.db.Now()
	r.ID = store.NewID("rel", r.CreatedAt)
	refused := valid.IDs("digest", r.Digest, "version", r.Version)
	for _, m := range r.Modules {
		refused = cmp.Or(refused, valid.Texts("module", m.Name))
	}
	for _, s := range r.Signers {
		refused = cmp.Or(refused, valid.Texts("key id", s.KeyID, "comment", s.Comment))
	}
	noted := r
	err = audit.Write(ctx, f.db, "add release", refused, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		noted, added = r, false
		inserted, err := t.Exec(ctx, `INSERT INTO releases (`+releaseColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.ID, r.Version, r.Digest, r.Size, db.JSONText(r.Modules), db.JSONText(r.Signers), store.Micros(r.CreatedAt))
		switch {
		case err != nil:
			return err
		case inserted == 0:
			noted, err = addSigners(ctx, t, log, r)
			return err
		}
		added = true
		return log.Add(ctx, t, audit.Entry{Action: "release.create", Target: r.ID, After: r})
	})
	if err != nil {
		return store.Release{}, false, err
	}
	return noted, added, nil
}

// addSigners adds the signers of a release to the one that is noted already, and returns that.
func addSigners(ctx context.Context, t *db.Tx, log audit.Log, r store.Release) (store.Release, error) {
	before, err := db.One(ctx, t, scanRelease, t.ForUpdate(`SELECT `+releaseColumns+` FROM releases WHERE digest = ? OR version = ?`), r.Digest, r.Version)
	switch {
	case err != nil:
		return store.Release{}, err
	case before.Digest != r.Digest:
		return store.Release{}, fmt.Errorf("%w: the version is that of another release", store.ErrConflict)
	}
	noted := before
	for _, s := range r.Signers {
		if !slices.Contains(noted.Signers, s) {
			noted.Signers = append(noted.Signers, s)
		}
	}
	if len(noted.Signers) == len(before.Signers) {
		return before, nil
	}
	if _, err := t.Exec(ctx, `UPDATE releases SET signers = ? WHERE id = ?`, db.JSONText(noted.Signers), before.ID); err != nil {
		return store.Release{}, err
	}
	return noted, log.Add(ctx, t, audit.Entry{Action: "release.sign", Target: before.ID, Before: before, After: noted})
}

// Release reads one release.
func (f *Fleet) Release(ctx context.Context, id string) (store.Release, error) {
	return releaseTable.Read(ctx, f.db, id)
}

// ReleaseOf reads the release of a digest.
func (f *Fleet) ReleaseOf(ctx context.Context, digest string) (store.Release, error) {
	byDigest := releaseTable
	byDigest.ID = "digest"
	return byDigest.Read(ctx, f.db, digest)
}

// Releases lists all releases, newest first.
func (f *Fleet) Releases(ctx context.Context, p store.Page) ([]store.Release, string, error) {
	return releaseTable.List(ctx, f.db, p)
}
