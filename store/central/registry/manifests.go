package registry

import (
	"context"
	"errors"
	"fmt"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// manifestMost is the largest manifest that is kept, in bytes.
const manifestMost = 1 << 20

// ReferrersMost bounds the manifests of one subject. Readers stop there, so one more would
// hide another.
const ReferrersMost = 16

// PutManifest keeps a manifest, and has tag name it where there is one. The same
// manifest again changes nothing, unless a disk has spoilt it since; a tag that names
// another is moved. The caller has checked the digest. ErrNotFound when
// its subject is not there, ErrLimit when that has ReferrersMost others.
func (r *Registry) PutManifest(ctx context.Context, m store.Manifest, tag string) error {
	type shown struct {
		Digest       string `json:"digest"`
		ArtifactType string `json:"artifact_type"`
		Tag          string `json:"tag,omitempty"`
	}
	return audit.Write(ctx, r.db, "put manifest", nil, func(ctx context.Context, t *db.Tx, log audit.Log) error {
		changed, err := putManifest(ctx, t, m, tag)
		if err != nil || !changed {
			return err
		}
		return log.Add(ctx, t, audit.Entry{Action: "release.push", Target: m.Digest, After: shown{m.Digest, m.ArtifactType, tag}})
	})
}

// putManifest is PutManifest in a transaction. changed is false where nothing did.
func putManifest(ctx context.Context, t *db.Tx, m store.Manifest, tag string) (changed bool, err error) {
	if err := errors.Join(valid.IDs("digest", m.Digest),
		valid.Texts("media type", m.MediaType, "artifact type", m.ArtifactType, "subject", m.Subject, "tag", tag)); err != nil {
		return false, err
	}
	if len(m.Content) > manifestMost {
		return false, valid.Errorf("the manifest is longer than %d bytes", manifestMost)
	}
	if m.Subject != "" {
		if err := mayRefer(ctx, t, m); err != nil {
			return false, err
		}
	}
	added, err := t.Exec(ctx, `INSERT INTO release_manifests (digest, media_type, artifact_type, subject, content)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET content = excluded.content
		WHERE release_manifests.content <> excluded.content`, m.Digest, m.MediaType, m.ArtifactType, m.Subject, m.Content)
	if err != nil || tag == "" {
		return added > 0, err
	}
	moved, err := t.Exec(ctx, `INSERT INTO release_tags (tag, digest) VALUES (?, ?)
		ON CONFLICT (tag) DO UPDATE SET digest = excluded.digest WHERE release_tags.digest <> excluded.digest`, tag, m.Digest)
	return added+moved > 0, err
}

// mayRefer returns an error unless the subject of a manifest is there and may have it too.
func mayRefer(ctx context.Context, t *db.Tx, m store.Manifest) error {
	var subject string
	if err := t.Get(ctx, t.ForUpdate(`SELECT digest FROM release_manifests WHERE digest = ?`), []any{m.Subject}, &subject); err != nil {
		return err
	}
	var others int
	if err := t.Get(ctx, `SELECT count(*) FROM release_manifests WHERE subject = ? AND digest <> ?`, []any{m.Subject, m.Digest}, &others); err != nil {
		return err
	}
	if others >= ReferrersMost {
		return fmt.Errorf("%w: %d manifests have this subject", store.ErrLimit, others)
	}
	return nil
}

const manifestColumns = `digest, media_type, artifact_type, subject, content`

func scanManifest(row db.Row) (m store.Manifest, err error) {
	err = row.Scan(&m.Digest, &m.MediaType, &m.ArtifactType, &m.Subject, &m.Content)
	return m, err
}

// Manifest reads the manifest that a digest or a tag names.
func (r *Registry) Manifest(ctx context.Context, reference string) (m store.Manifest, err error) {
	const op = "read manifest"
	if err := valid.Reference("manifest", reference); err != nil {
		return m, db.Fail(op, err)
	}
	m, err = scanManifest(r.db.QueryRow(ctx, `SELECT `+manifestColumns+` FROM release_manifests
		WHERE digest = coalesce((SELECT digest FROM release_tags WHERE tag = ?), ?)`, reference, reference))
	return m, db.Fail(op, err)
}

// Referrers reads up to most manifests whose subject is another, in the order of
// their digests.
func (r *Registry) Referrers(ctx context.Context, subject string, most int) ([]store.Manifest, error) {
	if subject == "" || !valid.Text(subject) {
		return nil, nil
	}
	all, err := db.All(ctx, r.db, scanManifest, `SELECT `+manifestColumns+` FROM release_manifests WHERE subject = ? ORDER BY digest LIMIT ?`, subject, most)
	return all, db.Fail("read referrers", err)
}

// Tags reads up to most tags that come after one, in order.
func (r *Registry) Tags(ctx context.Context, after string, most int) ([]string, error) {
	const op = "list tags"
	if !valid.Text(after) {
		return nil, db.Fail(op, valid.Errorf("tag is not UTF-8 without NUL"))
	}
	tags, err := db.All(ctx, r.db, db.Column[string], `SELECT tag FROM release_tags WHERE tag > ? ORDER BY tag LIMIT ?`, after, most)
	return tags, db.Fail(op, err)
}
