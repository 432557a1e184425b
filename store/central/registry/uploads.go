package registry

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Bounds of uploads.
const (
	// PieceMost is the longest piece of an upload, in bytes.
	PieceMost = 1 << 20
	// uploadsMost bounds the uploads under way.
	uploadsMost = 64
	// uploadTime is the time after which an upload that rests is removed.
	uploadTime = time.Hour
	// crowdedTime is the same while there are as many as may be: one that goes on
	// gets a piece at least every half a minute.
	crowdedTime = time.Minute
)

// BeginUpload makes room for a blob and returns the upload's id. Uploads that
// have rested for an hour are given up, or for a minute when there are 64, so that
// those that failed hold up no others. ErrLimit while 64 are under way.
func (r *Registry) BeginUpload(ctx context.Context) (id string, err error) {
	const op = "begin upload"
	err = r.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		now := r.db.Now()
		n := uploadsMost
		for _, rest := range []time.Duration{uploadTime, crowdedTime} {
			if n < uploadsMost {
				break
			}
			if err := giveUp(ctx, t, now.Add(-rest)); err != nil {
				return err
			}
			if err := t.Get(ctx, `SELECT count(*) FROM release_uploads`, nil, &n); err != nil {
				return err
			}
		}
		if n >= uploadsMost {
			return fmt.Errorf("%w: %d uploads are under way", store.ErrLimit, n)
		}
		id = store.NewID("upl", now)
		_, err := t.Exec(ctx, `INSERT INTO release_uploads (id, size, updated_at) VALUES (?, 0, ?)`, id, store.Micros(now))
		return err
	})
	return id, db.Fail(op, err)
}

// giveUp removes the uploads that have rested since a time.
func giveUp(ctx context.Context, t *db.Tx, since time.Time) error {
	// One that is finished meanwhile keeps its pieces: only what this removes loses them.
	ended, err := t.Strings(ctx, `DELETE FROM release_uploads WHERE updated_at < ? RETURNING id`, store.Micros(since))
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `DELETE FROM release_pieces WHERE `+t.In("upload"), t.Set(ended))
	return err
}

// UploadSize reads how many bytes an upload has so far.
func (r *Registry) UploadSize(ctx context.Context, id string) (int64, error) {
	return r.size(ctx, "upload", `SELECT size FROM release_uploads WHERE id = ?`, id)
}

// AppendUpload adds a piece of at most PieceMost bytes at an offset, which must be
// the upload's end: ErrConflict when it is not.
func (r *Registry) AppendUpload(ctx context.Context, id string, offset int64, piece []byte) error {
	const op = "append to upload"
	if err := valid.Reference("upload", id); err != nil {
		return db.Fail(op, err)
	}
	if len(piece) == 0 || len(piece) > PieceMost {
		return db.Fail(op, valid.Errorf("a piece has 1 to %d bytes", PieceMost))
	}
	return db.Fail(op, r.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		var size int64
		if err := t.Get(ctx, t.ForUpdate(`SELECT size FROM release_uploads WHERE id = ?`), []any{id}, &size); err != nil {
			return err
		}
		if size != offset {
			return fmt.Errorf("%w: the upload is at another offset", store.ErrConflict)
		}
		if _, err := t.Exec(ctx, `INSERT INTO release_pieces (upload, start, content) VALUES (?, ?, ?)`, id, offset, piece); err != nil {
			return err
		}
		_, err := t.Exec(ctx, `UPDATE release_uploads SET size = ?, updated_at = ? WHERE id = ?`, offset+int64(len(piece)), store.Micros(r.db.Now()), id)
		return err
	}))
}

// FinishUpload makes an upload the blob of a digest (sha256: and hexadecimal
// digits), and ends it. It takes the place of one that a disk has spoilt since. ErrInvalid
// when it has another digest, or is empty; it is then ended too.
func (r *Registry) FinishUpload(ctx context.Context, id, digest string) error {
	const op = "finish upload"
	if err := errors.Join(valid.Reference("upload", id), valid.IDs("digest", digest)); err != nil {
		return db.Fail(op, err)
	}
	size, got, err := r.uploadDigest(ctx, id)
	if err != nil {
		return db.Fail(op, err)
	}
	if got != digest || size == 0 {
		return db.Fail(op, errors.Join(valid.Errorf("the content has another digest"), r.CancelUpload(ctx, id)))
	}
	whole, err := r.HoldsBlob(ctx, digest)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return db.Fail(op, err)
	}
	return db.Fail(op, r.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		ended, err := t.Exec(ctx, `DELETE FROM release_uploads WHERE id = ? AND size = ?`, id, size)
		if err != nil {
			return err
		}
		if ended == 0 {
			return fmt.Errorf("%w: the upload went on", store.ErrConflict)
		}
		added, err := t.Exec(ctx, `INSERT INTO release_blobs (digest, size, upload) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING`, digest, size, id)
		if err != nil || added == 1 {
			return err
		}
		unused := id
		if !whole {
			if unused, err = replaceBlob(ctx, t, digest, id, size); err != nil {
				return err
			}
		}
		_, err = t.Exec(ctx, `DELETE FROM release_pieces WHERE upload = ?`, unused)
		return err
	}))
}

// replaceBlob makes an upload the blob of a digest that has one, and returns that one's upload.
func replaceBlob(ctx context.Context, t *db.Tx, digest, upload string, size int64) (old string, err error) {
	query := `SELECT upload FROM release_blobs WHERE digest = ?`
	if t.Postgres() {
		query += ` FOR UPDATE`
	}
	if err := t.Get(ctx, query, []any{digest}, &old); err != nil {
		return "", err
	}
	_, err = t.Exec(ctx, `UPDATE release_blobs SET upload = ?, size = ? WHERE digest = ?`, upload, size, digest)
	return old, err
}

// uploadDigest reads an upload from end to end.
func (r *Registry) uploadDigest(ctx context.Context, id string) (size int64, digest string, err error) {
	total, err := r.UploadSize(ctx, id)
	if err != nil {
		return 0, "", err
	}
	return r.digest(ctx, id, total)
}

// digest reads what was uploaded from end to end.
func (r *Registry) digest(ctx context.Context, id string, total int64) (size int64, digest string, err error) {
	sum := sha256.New()
	for size < total {
		piece, start, err := r.piece(ctx, id, size)
		if err != nil {
			return 0, "", err
		}
		if start != size || len(piece) == 0 {
			return 0, "", errPieceMissing
		}
		sum.Write(piece)
		size += int64(len(piece))
	}
	return size, "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// CancelUpload ends an upload and removes its content.
func (r *Registry) CancelUpload(ctx context.Context, id string) error {
	const op = "cancel upload"
	if err := valid.Reference("upload", id); err != nil {
		return db.Fail(op, err)
	}
	return db.Fail(op, r.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
		ended, err := t.Exec(ctx, `DELETE FROM release_uploads WHERE id = ?`, id)
		if err == nil && ended == 0 {
			err = sql.ErrNoRows
		}
		if err != nil {
			return err
		}
		_, err = t.Exec(ctx, `DELETE FROM release_pieces WHERE upload = ?`, id)
		return err
	}))
}
