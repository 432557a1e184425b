package central

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/registry"
	"partneredge/store/valid"
)

const releaseColumns = `id, version, digest, size, modules, signers, created_at`

var releaseTable = table[store.Release]{noun: "release", from: "releases", id: "id", columns: releaseColumns, scan: scanRelease}

func scanRelease(row db.Row) (r store.Release, err error) {
	err = row.Scan(&r.ID, &r.Version, &r.Digest, &r.Size, db.JSON(&r.Modules), db.JSON(&r.Signers), db.Time(&r.CreatedAt))
	return r, err
}

// AddRelease notes a release, whose parts are there already. The id is made and
// creation is now. One that is noted already is returned as it is, with added
// false, but for signers who came later; ErrConflict when its version is that of
// another.
func (d *DB) AddRelease(ctx context.Context, r store.Release) (_ store.Release, added bool, err error) {
	r.CreatedAt = d.db.Now()
	r.ID = store.NewID("rel", r.CreatedAt)
	refused := valid.IDs("digest", r.Digest, "version", r.Version)
	for _, m := range r.Modules {
		refused = cmp.Or(refused, valid.Texts("module", m.Name))
	}
	for _, s := range r.Signers {
		refused = cmp.Or(refused, valid.Texts("key id", s.KeyID, "comment", s.Comment))
	}
	noted := r
	err = d.write(ctx, "add release", refused, func(ctx context.Context, t *tx) error {
		noted, added = r, false
		before, err := db.One(ctx, t, scanRelease, `SELECT `+releaseColumns+` FROM releases WHERE digest = ? OR version = ?`, r.Digest, r.Version)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			added = true
			if _, err := t.Exec(ctx, `INSERT INTO releases (`+releaseColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				r.ID, r.Version, r.Digest, r.Size, db.JSONText(r.Modules), db.JSONText(r.Signers), db.Micros(r.CreatedAt)); err != nil {
				return err
			}
			return t.audited(ctx, "release.create", r.ID, nil, r)
		case err != nil:
			return err
		case before.Digest != r.Digest:
			return fmt.Errorf("%w: the version is that of another release", store.ErrConflict)
		}
		noted = before
		if noted.Signers = r.Signers; db.JSONText(noted) == db.JSONText(before) {
			return nil
		}
		if _, err := t.Exec(ctx, `UPDATE releases SET signers = ? WHERE id = ?`, db.JSONText(r.Signers), before.ID); err != nil {
			return err
		}
		return t.audited(ctx, "release.sign", before.ID, before, noted)
	})
	if err != nil {
		return store.Release{}, false, err
	}
	return noted, added, nil
}

// Release reads one release.
func (d *DB) Release(ctx context.Context, id string) (store.Release, error) {
	return releaseTable.read(ctx, d, id)
}

// ReleaseOf reads the release of a digest.
func (d *DB) ReleaseOf(ctx context.Context, digest string) (store.Release, error) {
	byDigest := releaseTable
	byDigest.id = "digest"
	return byDigest.read(ctx, d, digest)
}

// Releases lists all releases, newest first.
func (d *DB) Releases(ctx context.Context, p store.Page) ([]store.Release, string, error) {
	return releaseTable.list(ctx, d, p)
}

// PutManifest keeps a manifest, and has tag name it where there is one. The same
// manifest again changes nothing; a tag that names another is moved.
func (d *DB) PutManifest(ctx context.Context, m store.Manifest, tag string) error {
	type shown struct {
		Digest       string `json:"digest"`
		ArtifactType string `json:"artifact_type"`
		Tag          string `json:"tag,omitempty"`
	}
	return d.write(ctx, "put manifest", nil, func(ctx context.Context, t *tx) error {
		changed, err := registry.PutManifest(ctx, t.Tx, m, tag)
		if err != nil || !changed {
			return err
		}
		return t.audited(ctx, "release.push", m.Digest, nil, shown{m.Digest, m.ArtifactType, tag})
	})
}
