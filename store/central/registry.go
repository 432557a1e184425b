package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"partneredge/store"
)

// manifestMost is the largest manifest that is kept, in bytes.
const manifestMost = 1 << 20

// PutManifest keeps a manifest, and has tag name it where there is one. The same
// manifest again changes nothing; a tag that names another is moved.
func (db *DB) PutManifest(ctx context.Context, m store.Manifest, tag string) error {
	const tried = "put manifest"
	if err := errors.Join(checkIDs(field{"digest", m.Digest}),
		checkTexts(field{"media type", m.MediaType}, field{"artifact type", m.ArtifactType}, field{"subject", m.Subject}, field{"tag", tag})); err != nil {
		return db.fail(tried, err)
	}
	if len(m.Content) > manifestMost {
		return db.fail(tried, invalid("the manifest is longer than %d bytes", manifestMost))
	}
	type shown struct {
		Digest       string `json:"digest"`
		ArtifactType string `json:"artifact_type"`
		Tag          string `json:"tag,omitempty"`
	}
	return db.fail(tried, db.change(ctx, "", func(ctx context.Context, t *tx) error {
		touched, err := t.exec(ctx, `INSERT INTO release_manifests (digest, media_type, artifact_type, subject, content)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING`, m.Digest, m.MediaType, m.ArtifactType, m.Subject, m.Content)
		if err != nil {
			return err
		}
		if tag != "" {
			moved, err := t.exec(ctx, `INSERT INTO release_tags (tag, digest) VALUES (?, ?)
				ON CONFLICT (tag) DO UPDATE SET digest = excluded.digest WHERE release_tags.digest <> excluded.digest`, tag, m.Digest)
			if err != nil {
				return err
			}
			touched += moved
		}
		if touched == 0 {
			return nil
		}
		return t.audited(ctx, "release.push", m.Digest, nil, shown{m.Digest, m.ArtifactType, tag})
	}))
}

const manifestColumns = `digest, media_type, artifact_type, subject, content`

func scanManifest(row scanner) (m store.Manifest, err error) {
	err = row.Scan(&m.Digest, &m.MediaType, &m.ArtifactType, &m.Subject, &m.Content)
	return m, err
}

// Manifest reads the manifest that a digest or a tag names.
func (db *DB) Manifest(ctx context.Context, reference string) (store.Manifest, error) {
	const tried = "read manifest"
	if err := mustBeText("manifest", reference); err != nil {
		return store.Manifest{}, db.fail(tried, err)
	}
	m, err := scanManifest(db.queryRow(ctx, `SELECT `+manifestColumns+` FROM release_manifests
		WHERE digest = coalesce((SELECT digest FROM release_tags WHERE tag = ?), ?)`, reference, reference))
	return m, db.fail(tried, err)
}

// Referrers reads the manifests that are about another, at most so many, in the
// order of their digests.
func (db *DB) Referrers(ctx context.Context, subject string, most int) ([]store.Manifest, error) {
	const tried = "read referrers"
	if subject == "" || !validText(subject) {
		return nil, nil
	}
	rows, err := db.query(ctx, `SELECT `+manifestColumns+` FROM release_manifests WHERE subject = ? ORDER BY digest LIMIT ?`, subject, most)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	var all []store.Manifest
	for rows.Next() {
		m, err := scanManifest(rows)
		if err != nil {
			return nil, db.fail(tried, err)
		}
		all = append(all, m)
	}
	return all, db.fail(tried, rows.Err())
}

// Tags reads the tags after one, in order, at most so many.
func (db *DB) Tags(ctx context.Context, after string, most int) ([]string, error) {
	const tried = "list tags"
	if !validText(after) {
		return nil, db.fail(tried, invalid("tag is not UTF-8 without NUL"))
	}
	rows, err := db.query(ctx, `SELECT tag FROM release_tags WHERE tag > ? ORDER BY tag LIMIT ?`, after, most)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	tags := []string{}
	for rows.Next() {
		var tag string
		if err := rows.Scan(&tag); err != nil {
			return nil, db.fail(tried, err)
		}
		tags = append(tags, tag)
	}
	return tags, db.fail(tried, rows.Err())
}

// BlobSize is how many bytes the blob of a digest has.
func (db *DB) BlobSize(ctx context.Context, digest string) (size int64, err error) {
	const tried = "read size of blob"
	if err := mustBeText("blob", digest); err != nil {
		return 0, db.fail(tried, err)
	}
	err = db.queryRow(ctx, `SELECT size FROM release_blobs WHERE digest = ?`, digest).Scan(&size)
	return size, db.fail(tried, err)
}

// ReadBlob reads the blob of a digest from an offset on: at least a byte and at
// most most, as many as lie together; none at its end.
func (db *DB) ReadBlob(ctx context.Context, digest string, offset int64, most int) ([]byte, error) {
	const tried = "read blob"
	if err := mustBeText("blob", digest); err != nil {
		return nil, db.fail(tried, err)
	}
	if offset < 0 || most <= 0 {
		return nil, db.fail(tried, invalid("offset"))
	}
	var size, start int64
	var upload string
	if err := db.queryRow(ctx, `SELECT size, upload FROM release_blobs WHERE digest = ?`, digest).Scan(&size, &upload); err != nil {
		return nil, db.fail(tried, err)
	}
	if offset >= size {
		return nil, nil
	}
	piece, start, err := db.piece(ctx, upload, offset)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	rest := piece[min(offset-start, int64(len(piece))):]
	if len(rest) == 0 {
		return nil, db.fail(tried, errors.New("a piece of it is missing"))
	}
	return slices.Clip(rest[:min(len(rest), most)]), nil
}

// piece reads the piece of an upload that holds the byte at an offset.
func (db *DB) piece(ctx context.Context, upload string, offset int64) (content []byte, start int64, err error) {
	err = db.queryRow(ctx, `SELECT start, content FROM release_pieces WHERE upload = ? AND start <= ? ORDER BY start DESC LIMIT 1`,
		upload, offset).Scan(&start, &content)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: upload", store.ErrNotFound)
	}
	return content, start, err
}
