package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"partneredge/store"
)

const releaseColumns = `id, version, digest, size, modules, signers, created_at`

func scanRelease(row scanner) (r store.Release, err error) {
	err = row.Scan(&r.ID, &r.Version, &r.Digest, &r.Size, asJSON(&r.Modules), asJSON(&r.Signers), asTime(&r.CreatedAt))
	return r, err
}

// AddRelease notes a release, whose parts are there already. The id is made and
// creation is now. One that is noted already is returned as it is, with added
// false, but for signers who came later; ErrConflict when its version is that of
// another.
func (db *DB) AddRelease(ctx context.Context, r store.Release) (_ store.Release, added bool, err error) {
	const tried = "add release"
	r.CreatedAt = db.now()
	r.ID = store.NewID("rel", r.CreatedAt)
	if err := checkIDs(field{"digest", r.Digest}, field{"version", r.Version}); err != nil {
		return store.Release{}, false, db.fail(tried, err)
	}
	for _, m := range r.Modules {
		err = errors.Join(err, checkTexts(field{"module", m.Name}))
	}
	for _, s := range r.Signers {
		err = errors.Join(err, checkTexts(field{"key id", s.KeyID}, field{"comment", s.Comment}))
	}
	if err != nil {
		return store.Release{}, false, db.fail(tried, err)
	}
	noted := r
	err = db.change(ctx, "", func(ctx context.Context, t *tx) error {
		noted, added = r, false
		rows, err := t.query(ctx, `SELECT `+releaseColumns+` FROM releases WHERE digest = ? OR version = ?`, r.Digest, r.Version)
		if err != nil {
			return err
		}
		before, err := only(rows, scanRelease)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			added = true
			if _, err := t.exec(ctx, `INSERT INTO releases (`+releaseColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				r.ID, r.Version, r.Digest, r.Size, jsonText(r.Modules), jsonText(r.Signers), micros(r.CreatedAt)); err != nil {
				return err
			}
			return t.audited(ctx, "release.create", r.ID, nil, r)
		case err != nil:
			return err
		case before.Digest != r.Digest:
			return fmt.Errorf("%w: the version is that of another release", store.ErrConflict)
		}
		noted = before
		if noted.Signers = r.Signers; jsonText(noted) == jsonText(before) {
			return nil
		}
		if _, err := t.exec(ctx, `UPDATE releases SET signers = ? WHERE id = ?`, jsonText(r.Signers), before.ID); err != nil {
			return err
		}
		return t.audited(ctx, "release.sign", before.ID, before, noted)
	})
	if err != nil {
		return store.Release{}, false, db.fail(tried, err)
	}
	return noted, added, nil
}

// Release reads one release.
func (db *DB) Release(ctx context.Context, id string) (store.Release, error) {
	if err := mustBeText("release", id); err != nil {
		return store.Release{}, db.fail("read release", err)
	}
	r, err := scanRelease(db.queryRow(ctx, `SELECT `+releaseColumns+` FROM releases WHERE id = ?`, id))
	return r, db.fail("read release", err)
}

// Releases lists all releases, newest first.
func (db *DB) Releases(ctx context.Context, p store.Page) ([]store.Release, string, error) {
	l := listing[store.Release]{table: "releases", columns: releaseColumns, scan: scanRelease}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list releases", err)
}
